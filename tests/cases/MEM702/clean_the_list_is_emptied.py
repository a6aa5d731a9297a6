import torch
from collections import deque

recent = deque(maxlen=100)
window, turn = [], []
for step, batch in enumerate(loader):
    loss = model(**batch).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    recent.append(loss)
    window.append(loss)
    if step % 10 == 0:
        print(torch.stack(window).mean())
        window.clear()
    turn = []
    turn.append(loss)
