import torch

saved = torch.load("last.pt", map_location="cuda")
model.load_state_dict(saved["model"])
for batch in batches:
    model(**batch).loss.backward()
    optimizer.step()
publish(locals()["saved"] if "saved" in locals() else {})
