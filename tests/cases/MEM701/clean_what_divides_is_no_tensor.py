import torch

seen = 0
for batch in loader:
    rows = len(batch)
    loss = model(**batch).loss
    (loss / rows).backward()
    seen += rows
    seen += rows * 2
