import torch

torch.autograd.set_detect_anomaly(True)
print(model(ids).logits)
