import torch
from transformers import AutoModelForCausalLM
from memlint_runtime import fuse_causal_lm_loss

net = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B").cuda()
fuse_causal_lm_loss(net, fuse_evaluation=True)
optimizer = torch.optim.AdamW(net.parameters())


def loss_of(batch):
    return net(input_ids=batch["ids"], labels=batch["ids"], use_cache=False).loss


for batch in batches:
    loss_of(batch).backward()
    optimizer.step()
    optimizer.zero_grad()
with torch.no_grad():
    print(sum(loss_of(batch).item() for batch in held_out))
