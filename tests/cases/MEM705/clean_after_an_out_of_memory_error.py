import torch

for batch in loader:
    try:
        model(**batch).loss.backward()
        optimizer.step()
    except torch.cuda.OutOfMemoryError:
        torch.cuda.empty_cache()
    optimizer.zero_grad()
