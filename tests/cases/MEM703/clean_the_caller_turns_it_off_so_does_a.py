# about: The caller turns it off; so does a context made before.
import torch


def loss(model, batch):
    model.eval()
    return model(**batch).loss


context = torch.no_grad()
with context:
    loss(model, batch)
