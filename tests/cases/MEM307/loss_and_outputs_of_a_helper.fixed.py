from transformers import AutoModelForCausalLM


def run(model, batch):
    outputs = model(**batch)
    return outputs.loss, outputs


model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
for batch in loader:
    loss, outputs = run(model, batch)
    del outputs
    loss.backward()
    optimizer.step()
