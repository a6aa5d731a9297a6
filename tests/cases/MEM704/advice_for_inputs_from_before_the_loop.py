from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
embedded = model.get_input_embeddings()(ids)
for labels in loader:
    loss = model(inputs_embeds=embedded, labels=labels).loss
    loss.backward(retain_graph=True)  # expect: MEM704
    optimizer.step()
