from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
cache = None
for batch in loader:
    outputs = model(**batch, past_key_values=cache)
    cache = outputs.past_key_values
    outputs.loss.backward(retain_graph=True)
    optimizer.step()
