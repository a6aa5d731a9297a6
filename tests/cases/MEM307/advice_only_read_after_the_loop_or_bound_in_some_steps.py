from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
for batch in loader:
    outputs = model(**batch)  # expect: MEM307
    outputs.loss.backward()
print(outputs.logits.shape)
for batch in loader:
    if len(batch) > 2:
        result = model(**batch)  # expect: MEM307
        result.loss.backward()
