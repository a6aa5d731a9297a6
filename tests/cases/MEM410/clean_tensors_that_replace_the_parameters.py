# about: The tensors become the parameters, wherever they were read to.
import torch

swap = True
weights = torch.load("policy.pt")
model.load_state_dict(weights, strict=False, assign=swap)
for batch in loader:
    model(**batch).loss.backward()
    optimizer.step()
