# about: Checkpointing turns it off.
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
model.gradient_checkpointing_enable()
for batch in loader:
    model(**batch).loss.backward()
