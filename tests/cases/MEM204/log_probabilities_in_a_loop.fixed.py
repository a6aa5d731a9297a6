import torch
import torch.nn.functional as F
from transformers import AutoModelForCausalLM
from memlint_runtime.losses import defer_logits

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
defer_logits(model)
optimizer = torch.optim.AdamW(model.parameters())
for batch in loader:
    logits = model(batch["input_ids"], use_cache=False).logits[:, :-1]
    logprobs = F.log_softmax(logits.float(), dim=-1)
    chosen = logprobs.gather(-1, batch["input_ids"][:, 1:].unsqueeze(-1)).squeeze(-1)
    loss = -(chosen.sum(-1) * batch["advantages"]).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
