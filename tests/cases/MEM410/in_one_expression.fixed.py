import torch

model.load_state_dict(torch.load("model.pt", "cpu"))
for batch in loader:
    model(**batch).loss.backward()
    optimizer.step()
