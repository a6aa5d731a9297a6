# about: A context of the script's own may do it.
import torch
from tools import evaluating

model.eval()
with evaluating(model):
    logits = model(ids).logits
