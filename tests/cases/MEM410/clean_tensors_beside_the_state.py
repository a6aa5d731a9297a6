# about: The mask is used as it is, and must be where the model is.
import torch

checkpoint = torch.load("model.pt")
model.load_state_dict(checkpoint["model"])
mask = checkpoint["mask"]
for batch in loader:
    (model(**batch).logits * mask).sum().backward()
    optimizer.step()
