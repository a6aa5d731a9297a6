import torch

model.load_state_dict(torch.load("model.pt", "cuda:0"))  # expect: MEM410
for batch in loader:
    model(**batch).loss.backward()
    optimizer.step()
