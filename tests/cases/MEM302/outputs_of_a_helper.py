# about: A helper returns the outputs.
from transformers import AutoModelForCausalLM


def run(model, batch):
    return model(**batch)  # expect: MEM302


model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
for batch in loader:
    outputs = run(model, batch)
    outputs.loss.backward()
