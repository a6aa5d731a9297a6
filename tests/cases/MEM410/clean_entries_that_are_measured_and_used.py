import torch
from torch import nn

model = nn.Transformer().cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

kept = torch.load("last.pt", map_location="cuda")
model.load_state_dict(kept["model"])
shape = kept["mean"].shape
mean = scale(kept["mean"], shape)

for rows in loader:
    model(rows, rows).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
