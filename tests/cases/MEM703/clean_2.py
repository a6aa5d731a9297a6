import torch

model.eval()
with torch.no_grad():
    logits = model(ids).logits
with torch.inference_mode():
    logits = model(ids).logits
