# about: Gradients are wanted: training with dropout off, and saliency.
import torch

model.eval()
for batch in loader:
    model(**batch).loss.backward()


def saliency(net, x):
    net.eval()
    x.requires_grad_(True)
    return torch.autograd.grad(net(x).sum(), x)
