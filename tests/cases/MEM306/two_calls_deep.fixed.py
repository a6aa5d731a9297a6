from transformers import AutoModelForCausalLM


def update(model, batch):
    outputs = model(**batch)
    outputs.loss.backward()


def step(model, batch):
    update(model, batch)


model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
for batch in loader:
    step(model, batch)
