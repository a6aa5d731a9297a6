# about: A device that is the GPU where there is one; items without weights may be read.
import torch

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def resume(path, model, optimizer, device=device):
    checkpoint = torch.load(path, map_location=device)  # expect: MEM410
    if "model" in checkpoint:
        model.load_state_dict(checkpoint["model"])
    optimizer.load_state_dict(checkpoint.get("optimizer"))
    return checkpoint["epoch"] + 1


start = resume("last.pt", model, optimizer)
for batch in loader:
    model(**batch).loss.backward()
    optimizer.step()
