# about: Nothing is trained: each turn tries another size.
import torch

while low < high:
    model(make_batch(low)).loss.backward()
    low += 1
    torch.cuda.empty_cache()
