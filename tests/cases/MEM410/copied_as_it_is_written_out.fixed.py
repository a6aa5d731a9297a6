import torch

model.load_state_dict(torch.load("policy.pt", map_location="cpu"), True, False)
for batch in loader:
    model(**batch).loss.backward()
    optimizer.step()
