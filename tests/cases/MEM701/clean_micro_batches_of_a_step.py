import torch

for step in range(1000):
    total = 0.0
    for part in range(8):
        loss = model(**batches[step][part]).loss / 8
        loss.backward()
        total += loss
    optimizer.step()
    optimizer.zero_grad()
    print(total.item())
