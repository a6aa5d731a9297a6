from transformers import AutoModelForCausalLM


def update(model, batch):
    outputs = model(use_cache=False, **batch)
    outputs.loss.backward()


def step(model, batch):
    update(model, batch)
    optimizer.step()


model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
for batch in loader:
    step(model, batch)
