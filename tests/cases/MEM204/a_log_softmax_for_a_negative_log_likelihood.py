# about: A log-softmax whose entries a loss picks, as a function and as a module.
import torch
from torch.nn import functional
from transformers import AutoModelForCausalLM

net = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B", dtype=torch.bfloat16).cuda()
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-5)
measure = torch.nn.NLLLoss()
for ids in rows:
    shares = net(ids, use_cache=False).logits[:, :-1].log_softmax(-1)  # expect: MEM204
    loss = measure(shares.reshape(-1, shares.size(-1)), ids[:, 1:].reshape(-1))
    again = net(ids, use_cache=False).logits[:, :-1].flatten(0, 1)
    shares = torch.log_softmax(again, dim=-1)  # expect: MEM204
    (loss + functional.nll_loss(shares, ids[:, 1:].flatten())).backward()
    optimizer.step()
    optimizer.zero_grad()
