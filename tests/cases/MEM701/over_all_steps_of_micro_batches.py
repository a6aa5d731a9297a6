import torch

total = 0.0
for step in range(1000):
    for part in range(8):
        loss = model(**batches[step][part]).loss / 8
        loss.backward()
        total += loss  # expect: MEM701
    optimizer.step()
    optimizer.zero_grad()
print(total / 1000)
