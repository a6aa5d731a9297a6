# about: The outputs are let go at once, and autograd keeps the keys and values anyway.
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
for batch in loader:
    model(**batch).loss.backward()
