# about: The step before is wanted.
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
outputs = None
for batch in loader:
    before = outputs.logits if outputs is not None else None
    outputs = model(**batch)
    (outputs.loss + distance(outputs.logits, before)).backward()
