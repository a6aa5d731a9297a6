# about: What the unpacked options say is not known.
import torch

model.load_state_dict(torch.load("policy.pt"), **settings.restoring)
for batch in loader:
    model(**batch).loss.backward()
    optimizer.step()
