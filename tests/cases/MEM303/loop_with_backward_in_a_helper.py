# about: The step is a function that the loop calls.
# target: transformers=4.48
from transformers import AutoModelForCausalLM


def step(model, batch):
    model(**batch).loss.backward()


model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
model.gradient_checkpointing_enable()  # expect: MEM303
for batch in loader:
    step(model, batch)
