import torch
import torch.nn.functional as F
from transformers import AutoModelForCausalLM
from memlint_runtime.losses import defer_logits

policy = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
defer_logits(policy)
reference = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
defer_logits(reference)
optimizer = torch.optim.AdamW(policy.parameters())


def get_batch_logps(logits, labels):
    labels = labels[:, 1:].clone()
    logits = logits[:, :-1, :]
    mask = labels != -100
    labels[labels == -100] = 0
    logps = torch.gather(logits.log_softmax(-1), dim=2, index=labels.unsqueeze(2)).squeeze(2)
    return (logps * mask).sum(-1)


for batch in loader:
    ours = get_batch_logps(policy(batch["input_ids"]).logits, batch["labels"])
    with torch.no_grad():
        theirs = get_batch_logps(reference(batch["input_ids"]).logits, batch["labels"])
    loss = -F.logsigmoid(ours - theirs).mean()
    loss.backward()
    optimizer.step()
