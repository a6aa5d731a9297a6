# about: Turned off in the configuration.
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
model.config.use_cache = False
for batch in loader:
    model(**batch).loss.backward()
