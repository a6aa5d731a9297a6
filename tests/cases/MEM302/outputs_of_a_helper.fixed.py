from transformers import AutoModelForCausalLM


def run(model, batch):
    return model(use_cache=False, **batch)


model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
for batch in loader:
    outputs = run(model, batch)
    outputs.loss.backward()
