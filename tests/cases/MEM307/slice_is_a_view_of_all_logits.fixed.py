from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
for batch in loader:
    last = model(**batch).logits[:, -1]
    criterion(last).backward()
    del last
