import torch
from torch import nn

model = nn.Transformer().cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

class Tally:
    tokens = 0


kept = torch.load("last.pt", map_location="cpu")
model.load_state_dict(kept["model"])
network = build(**kept["cfg"])
Tally.tokens = kept.get("tokens_seen", 0)
begun = int(kept["turn"])

for rows in loader:
    model(rows, rows).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
