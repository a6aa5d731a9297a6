import torch
import torch.nn.functional as F
from torch import nn
from transformers import AutoModelForCausalLM

student = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-1.5B", dtype=torch.bfloat16)
optimizer = torch.optim.AdamW(student.parameters())
criterion = nn.NLLLoss(reduction="none")

for tokens, weights in loader:
    logits = student(tokens).logits[:, :-1]
    shares = F.log_softmax(logits, dim=-1)  # expect: MEM204
    first = F.nll_loss(shares.transpose(1, 2), tokens[:, 1:])
    again = logits.log_softmax(2).permute(0, 2, 1)  # expect: MEM204
    second = (criterion(again, tokens[:, 1:]) * weights).mean()
    (first + second).backward()
    optimizer.step()
    optimizer.zero_grad()
