import torch

total = 0
for batch in loader:
    loss = model(**batch).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    loss = loss.item()
    total += loss
    total += loss / len(batch)
