import torch

for step in range(1000):
    losses = []
    for part in range(8):
        loss = model(**batches[step][part]).loss / 8
        loss.backward()
        losses.append(loss)
    optimizer.step()
    optimizer.zero_grad()
    print(torch.stack(losses).sum())
