# about: A partial of the same name brings the option along.
from functools import partial

import torch

load_state_dict = partial(model.load_state_dict, assign=True)
load_state_dict(torch.load("policy.pt"))
for batch in loader:
    model(**batch).loss.backward()
    optimizer.step()
