# about: The hook only watches; the modulus logs.
import torch


def watch(parameter):
    norms.append(parameter.grad.norm().item())


for parameter in model.parameters():
    parameter.register_post_accumulate_grad_hook(watch)
for i, batch in enumerate(loader):
    model(**batch).loss.backward()
    if i % 4 == 0:
        optimizer.step()
