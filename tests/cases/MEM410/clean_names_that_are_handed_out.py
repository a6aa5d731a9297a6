import torch

state = torch.load("last.pt", map_location="cuda")
model.load_state_dict(state)
register(globals())
for batch in loader:
    model(**batch).loss.backward()
    optimizer.step()
