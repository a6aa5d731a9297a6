from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
for batch in loader:
    outputs = model(use_cache=False, **batch)
    outputs.loss.backward()
model.generate(ids, use_cache=True)
