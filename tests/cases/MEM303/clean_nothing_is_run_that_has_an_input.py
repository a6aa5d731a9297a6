# about: Nothing is run that has an input.
import torch

for module in model.modules():
    module.forward = torch.utils.checkpoint.checkpoint(module.forward)
