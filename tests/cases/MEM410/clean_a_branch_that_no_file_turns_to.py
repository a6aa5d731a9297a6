import torch

begin = "scratch"
if begin == "resume":
    model.load_state_dict(torch.load("last.pt", map_location="cuda"))
for batch in loader:
    model(**batch).loss.backward()
    optimizer.step()
