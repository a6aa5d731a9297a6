from transformers import AutoModelForCausalLM


def update(loss):
    loss.backward()
    optimizer.step()


model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
for batch in loader:
    outputs = model(**batch)
    update(outputs.loss)
    del outputs
