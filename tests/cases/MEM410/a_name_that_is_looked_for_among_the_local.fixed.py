import os

import torch

start = 0
if os.path.isfile("last.pt"):
    saved = torch.load("last.pt", map_location="cpu")
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    start = int(saved.get("step", 0)) + 1
for batch in batches(start):
    loss = model(**batch).loss
    loss.backward()
    optimizer.step()
note(loss.item() if "loss" in locals() else None)
