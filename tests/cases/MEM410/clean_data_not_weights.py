# about: Tensors that are used where they are read.
import torch

examples = torch.load("examples.pt")
model.load_state_dict(state)
for batch in examples:
    model(**batch).loss.backward()
    optimizer.step()
