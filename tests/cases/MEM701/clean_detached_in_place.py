import torch

total = 0.0
for batch in loader:
    loss = model(**batch).loss
    loss.backward()
    loss.detach_()
    total += loss
