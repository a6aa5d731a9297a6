import torch
from torch import nn

model = nn.Transformer().cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

kept = torch.load("last.pt", map_location="cpu")
model.load_state_dict(kept["model"])
first = kept["shard"]
for shard in range(first, 100):
    for rows in loader[shard]:
        model(rows, rows).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
