import torch

for epoch in range(3):
    losses = []
    for batch in loader:
        loss = model(**batch).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss)  # expect: MEM702
    print(torch.stack(losses).mean())
