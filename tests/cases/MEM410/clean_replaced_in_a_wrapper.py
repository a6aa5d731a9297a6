# about: The function decides by its default.
import torch


def fill(module, path, assign=True):
    weights = torch.load(path)
    module.load_state_dict(weights, assign=assign)


fill(model, "policy.pt")
for batch in loader:
    model(**batch).loss.backward()
    optimizer.step()
