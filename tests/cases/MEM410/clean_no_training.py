# about: One model, loaded to try it; ``Trainer`` is a word of the text alone.
import torch

model.load_state_dict(torch.load("model.pt"))
print(model.generate(**inputs), "Trainer")
