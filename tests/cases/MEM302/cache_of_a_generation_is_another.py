# about: `generate` decides about its own cache.
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
for batch in loader:
    outputs = model(**batch)  # expect: MEM302
    outputs.loss.backward()
model.generate(ids, use_cache=True)
