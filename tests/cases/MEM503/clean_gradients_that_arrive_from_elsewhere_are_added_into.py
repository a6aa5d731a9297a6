# about: Gradients that arrive from elsewhere are added into those that are there.
import torch

for parameter, gradient in zip(model.parameters(), received):
    parameter.grad += gradient
optimizer.step()
optimizer.zero_grad(set_to_none=False)
