import torch

state = torch.load("last.pt")["model"]
for key, weight in state.items():
    register(key, weight)
model.load_state_dict(state)
for batch in loader:
    model(**batch).loss.backward()
    optimizer.step()
