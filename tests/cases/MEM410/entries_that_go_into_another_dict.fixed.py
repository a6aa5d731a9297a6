import torch

state = torch.load("last.pt", map_location="cpu")["model"]
renamed = {}
for key, weight in state.items():
    renamed[key.replace("module.", "")] = weight
model.load_state_dict(renamed)
for batch in loader:
    model(**batch).loss.backward()
    optimizer.step()
