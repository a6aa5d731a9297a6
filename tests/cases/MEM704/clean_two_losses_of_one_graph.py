from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
for batch in loader:
    outputs = model(**batch)
    outputs.loss.backward(retain_graph=True)
    penalty(outputs.logits).backward()
    optimizer.step()
