import torch
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B").to("cuda")
model.eval()
logits, moved, predictions, losses, last = [], [], [], [], []
with torch.no_grad():
    for batch in loader:
        outputs = model(**batch)
        logits.append(outputs.logits.cpu())
        moved.append(outputs.logits.to(device))
        predictions.append(outputs.logits.argmax(-1))
        losses.append(outputs.loss)
        last.append(outputs.logits[:, -1])
for batch in train_loader:
    loss = model(**batch).loss
    loss.backward()
    losses.append(loss.item())
    losses.append(loss.detach())
    losses.append(float(loss))
