from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
model.model.layers[3].register_forward_hook(save)
for batch in loader:
    model(**batch)
    loss = probe(saved)
    loss.backward()
