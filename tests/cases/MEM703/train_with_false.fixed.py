import torch

model.train(False)
with torch.no_grad():
    loss = model(**batch).loss
print(loss)
