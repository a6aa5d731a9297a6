from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
for batch in loader:
    outputs = model(**next(others))  # expect: MEM308
    loss = model(**batch).loss
    loss.backward()
