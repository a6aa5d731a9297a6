# about: The loop calls a function that calls the one with the forward pass.
from transformers import AutoModelForCausalLM


def update(model, batch):
    outputs = model(**batch, output_hidden_states=True)  # expect: MEM306
    outputs.loss.backward()


def step(model, batch):
    update(model, batch)


model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
for batch in loader:
    step(model, batch)
