import torch

model.load_state_dict(torch.load("model.pt", map_location=accelerator.device))
for batch in loader:
    model(**batch).loss.backward()
    optimizer.step()
