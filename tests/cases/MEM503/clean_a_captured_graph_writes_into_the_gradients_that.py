# about: A captured graph writes into the gradients that are there.
import torch

graph = torch.cuda.CUDAGraph()
optimizer.zero_grad(set_to_none=False)
