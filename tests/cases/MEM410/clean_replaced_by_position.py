# about: ``load_state_dict(state_dict, strict, assign)``.
import torch

model.load_state_dict(torch.load("policy.pt"), False, True)
for batch in loader:
    model(**batch).loss.backward()
    optimizer.step()
