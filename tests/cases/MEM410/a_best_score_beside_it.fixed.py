import torch

checkpoint = torch.load("last.pt", map_location="cpu")
model.load_state_dict(checkpoint["model"])
best = checkpoint["best_accuracy"]
for batch in loader:
    model(**batch).loss.backward()
    optimizer.step()
