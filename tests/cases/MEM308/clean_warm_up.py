from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
model(**first)
for step, batch in enumerate(loader):
    if step == 0:
        model(**batch)
    loss = model(**batch).loss
    loss.backward()
