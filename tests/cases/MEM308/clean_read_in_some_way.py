from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
for batch in loader:
    outputs = model(**batch)
    show(outputs)
    loss, *rest = model(**batch)
    pair = model(**batch)
    print(pair[0])
    last = model(**batch)
    loss.backward()
print(last.loss)
