from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
for batch in loader:
    loss = model(**batch).loss + penalty
    loss.backward(retain_graph=True)  # expect: MEM704
    optimizer.step()
