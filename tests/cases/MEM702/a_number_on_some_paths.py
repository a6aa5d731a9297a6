# about: A number has no detach().
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B").cuda()
losses = []
for batch in loader:
    loss = 0.0
    if batch["labels"].any():
        loss = model(**batch).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    losses.append(loss)  # expect: MEM702
print(sum(losses))
