import torch

state = torch.load("last.pt", map_location="cpu")["model"]
for key, _ in list(state.items()):
    if key.startswith("_orig_mod."):
        state[key.removeprefix("_orig_mod.")] = state.pop(key)
model.load_state_dict(state)
for batch in loader:
    model(**batch).loss.backward()
    optimizer.step()
