import torch

model.load_state_dict(torch.load("policy.pt"), True, False)  # expect: MEM410
for batch in loader:
    model(**batch).loss.backward()
    optimizer.step()
