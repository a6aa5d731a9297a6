import torch
import torch.nn.functional as F
from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification
from memlint_runtime.losses import defer_logits

policy = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B").to("cuda")
defer_logits(policy)
judge = AutoModelForSequenceClassification.from_pretrained("org/judge").to("cuda").eval()
optimizer = torch.optim.AdamW(policy.parameters(), lr=1e-6)
for rows in loader:
    with torch.no_grad():
        gain = judge(rows).logits[:, 0]
    spread = F.log_softmax(policy(rows).logits[:, :-1], dim=-1)
    entries = spread.gather(-1, rows[:, 1:, None]).squeeze(-1)
    (-(entries.sum(-1) * gain).mean()).backward()
    optimizer.step()
    optimizer.zero_grad()
