# about: `train(False)` is `eval()`.
import torch

model.train(False)
loss = model(**batch).loss  # expect: MEM703
print(loss)
