# about: A score may be a tensor of the GPU, which is compared with others: unsafe.
import torch

checkpoint = torch.load("last.pt")  # expect: MEM410
model.load_state_dict(checkpoint["model"])
best = checkpoint["best_accuracy"]
for batch in loader:
    model(**batch).loss.backward()
    optimizer.step()
