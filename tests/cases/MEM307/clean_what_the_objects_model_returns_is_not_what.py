# about: What the object's model returns is not what language models return.
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("gpt2")
for batch in loader:
    scores = judge.model(batch)
    scores.sum().backward()
