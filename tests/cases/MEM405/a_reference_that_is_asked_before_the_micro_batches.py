import torch
from torch.nn.functional import cross_entropy, logsigmoid
from transformers import AutoModelForCausalLM

student = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B").cuda()
start = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B").cuda()  # expect: MEM405
start.requires_grad_(False)
optimizer = torch.optim.AdamW(student.parameters(), lr=1e-6)


def likelihood(model, rows):
    logits = model(rows, use_cache=False).logits[:, :-1].transpose(1, 2)
    return -cross_entropy(logits, rows[:, 1:], reduction="none").sum(-1)


for pairs in loader:
    with torch.no_grad():
        at_start = [likelihood(start, good) - likelihood(start, bad) for good, bad in pairs]
    for (good, bad), margin in zip(pairs, at_start):
        now = likelihood(student, good) - likelihood(student, bad)
        (-logsigmoid(0.1 * (now - margin)).mean() / len(pairs)).backward()
    optimizer.step()
    optimizer.zero_grad()
