import torch

for step, batch in enumerate(loader):
    model(**batch).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    if step % 100 == 0:
        torch.cuda.empty_cache()
