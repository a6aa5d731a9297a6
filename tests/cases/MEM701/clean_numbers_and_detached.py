import torch

total = tracked = moved = 0.0
for batch in loader:
    loss = model(**batch).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    total += loss.item()
    tracked += loss.detach()
    moved += float(loss) * len(batch)
    moved += loss.data
print(total, tracked, moved)
