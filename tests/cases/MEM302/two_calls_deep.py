# about: The loop calls a function that calls the one with the forward pass.
from transformers import AutoModelForCausalLM


def update(model, batch):
    outputs = model(**batch)  # expect: MEM302
    outputs.loss.backward()


def step(model, batch):
    update(model, batch)
    optimizer.step()


model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
for batch in loader:
    step(model, batch)
