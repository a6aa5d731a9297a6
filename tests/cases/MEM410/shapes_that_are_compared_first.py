import torch
from torch import nn

model = nn.Transformer().cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

state = torch.load("last.pt", map_location="cuda")  # expect: MEM410
known = model.state_dict()
for name in known:
    if state[name].shape != known[name].shape:
        print(name, state[name].dtype)
model.load_state_dict(state)

for rows in loader:
    model(rows, rows).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
