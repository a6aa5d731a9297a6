import torch
import torch.nn.functional as F
from transformers import AutoModelForCausalLM
from memlint_runtime.losses import defer_logits

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B").to("cuda")
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
for rows in loader:
    with defer_logits(model):
        logits = model(rows).logits.float()
    record["last"] = logits
    loss = F.cross_entropy(logits[:, :-1].reshape(-1, logits.size(-1)), rows[:, 1:].reshape(-1))
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
