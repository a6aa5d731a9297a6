import torch

optimizer.zero_grad()
optimizer.zero_grad(set_to_none=True)
optimizer.zero_grad(set_to_none=flag)
