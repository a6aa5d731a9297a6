# about: It is called after training too, where it may be wanted.
import gc

import torch


def tidy():
    gc.collect()
    torch.cuda.empty_cache()  # expect: MEM705


for ids in loader:
    model(ids, labels=ids).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    tidy()
tidy()
