# about: Of the two models that a helper scores, the optimizer steps all weights of one.
import torch
from transformers import AutoModelForCausalLM

name = "Qwen/Qwen2.5-1.5B-Instruct"
policy = AutoModelForCausalLM.from_pretrained(name, dtype=torch.bfloat16).cuda()
policy.train()
anchor = AutoModelForCausalLM.from_pretrained(name, dtype=torch.bfloat16).cuda()
anchor.eval()
for weight in anchor.parameters():
    weight.requires_grad_(False)
optimizer = torch.optim.Adam(policy.parameters(), lr=1e-6)  # expect: MEM507


def scores(model, ids):
    logits = model(input_ids=ids, use_cache=False).logits[:, :-1]
    return logits.log_softmax(-1).gather(-1, ids[:, 1:].unsqueeze(-1)).squeeze(-1)


for rows in loader:
    with torch.no_grad():
        before = scores(anchor, rows)
    loss = -(scores(policy, rows) - before).exp().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
