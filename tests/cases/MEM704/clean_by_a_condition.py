from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
print("retain_graph=True")
for batch in loader:
    loss = model(**batch).loss
    loss.backward(retain_graph=keep)
