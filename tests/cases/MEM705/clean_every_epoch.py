import torch

for epoch in range(3):
    for batch in loader:
        model(**batch).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    torch.cuda.empty_cache()
