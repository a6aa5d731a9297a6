import gc
import torch

for batch in loader:
    before = torch.cuda.memory_allocated()
    model(**batch).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(torch.cuda.memory_allocated() - before)
    gc.collect()
    torch.cuda.empty_cache()
