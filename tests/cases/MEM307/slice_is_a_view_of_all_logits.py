# about: A slice is a view: it keeps the logits of all positions.
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
for batch in loader:
    last = model(**batch).logits[:, -1]  # expect: MEM307
    criterion(last).backward()
