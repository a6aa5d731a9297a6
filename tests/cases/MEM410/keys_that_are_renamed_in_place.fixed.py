import torch

state = torch.load("last.pt", map_location="cpu")["model"]
for key in list(state.keys()):
    if key.startswith("_orig_mod."):
        state[key[10:]] = state.pop(key)
model.load_state_dict(state)
for batch in loader:
    model(**batch).loss.backward()
    optimizer.step()
