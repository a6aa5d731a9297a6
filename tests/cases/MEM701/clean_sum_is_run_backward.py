import torch

for batch in loader:
    loss = 0
    for part in batch:
        loss += model(**part).loss / len(batch)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()

total = 0
for batch in loader:
    each = model(**batch).loss
    total += each
total.backward()
