# about: `set_grad_enabled(False)` as a statement.
import torch

torch.set_grad_enabled(False)
model.eval()
for batch in loader:
    print(model(**batch).loss.item())
