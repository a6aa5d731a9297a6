# expect: MEM505

import torch
from torchtune.models.llama3 import llama3_8b
from torchtune.training import OptimizerInBackwardWrapper, register_optim_in_bwd_hooks

model = llama3_8b().cuda()
optimizers = {p: torch.optim.AdamW([p], lr=2e-5) for p in model.parameters()}
register_optim_in_bwd_hooks(model=model, optim_dict=optimizers)
for step, batch in enumerate(loader):
    loss = loss_fn(model(batch["tokens"]), batch["labels"]) / 4
    loss.backward()
