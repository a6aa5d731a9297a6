import torch

for episode in episodes:
    losses = []
    for step in episode:
        loss = model(**step).loss
        losses.append(loss)
    torch.stack(losses).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
