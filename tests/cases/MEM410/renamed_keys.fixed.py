import torch

state = torch.load("model.bin", weights_only=True, map_location="cpu")
state = {key.removeprefix("module."): value for key, value in state.items()}
model.load_state_dict(state, strict=False)
for batch in loader:
    model(**batch).loss.backward()
    optimizer.step()
