# target: transformers=4.48
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
model.gradient_checkpointing_enable()  # expect: MEM303
for batch in loader:
    model(**batch).loss.backward()
