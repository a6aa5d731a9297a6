import torch

optimizers = {p: torch.optim.AdamW([p]) for p in model.parameters()}


def step(parameter):
    optimizers[parameter].step()
    optimizers[parameter].zero_grad()


for parameter in model.parameters():
    parameter.register_post_accumulate_grad_hook(step)  # expect: MEM505
for i, batch in enumerate(loader):
    loss = model(**batch).loss / 4
    loss.backward()
    if (i + 1) % 4 == 0:
        scheduler.step()
