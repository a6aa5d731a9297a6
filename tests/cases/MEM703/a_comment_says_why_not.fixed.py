import torch

model.eval()
total = 0.0
for batch in loader:
    with context:  # under no_grad() this kernel is compiled once more
        total += model(**batch).loss.item()
store(total)
# inference_mode breaks the hooks of the module
print(model(**batch).loss)
store(total)
with torch.no_grad():
    print(model(**batch).loss)
