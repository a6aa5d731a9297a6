# about: What stands for an entry that is missing is used as it is.
import torch

model = Model().to("cuda")
saved = torch.load("last.pt", map_location="cuda")
model.load_state_dict(saved["model"])
compare(best.get("weights", saved))
optimizer = torch.optim.AdamW(model.parameters())
for batch in loader:
    model(batch).backward()
    optimizer.step()
