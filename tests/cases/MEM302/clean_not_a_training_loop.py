# about: Not a training loop.
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
for batch in loader:
    scores = model(**batch).logits
penalty.backward()
