# about: Frozen.
import torch

teacher.eval()
for parameter in teacher.parameters():
    parameter.requires_grad = False
logits = teacher(ids).logits
