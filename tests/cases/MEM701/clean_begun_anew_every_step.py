# about: A few graphs at a time: until the optimizer's step, or the next line of the log.
import torch

running = 0.0
for step, batch in enumerate(loader):
    loss = model(**batch).loss / 8
    loss.backward()
    running += loss
    if step % 8 == 7:
        optimizer.step()
        optimizer.zero_grad()
        print(running)
        running = 0.0
