# about: What a function elsewhere does with it is not known.
import torch

checkpoint = torch.load("model.pt")
restore(checkpoint)
other.load_state_dict(state)
for batch in loader:
    model(**batch).loss.backward()
    optimizer.step()
