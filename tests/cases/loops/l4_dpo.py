# about: DPO by hand.
import copy

import torch
import torch.nn.functional as F
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained(  # planted: MEM301
    "Qwen/Qwen2.5-1.5B-Instruct", torch_dtype=torch.bfloat16
).to("cuda")
ref_model = copy.deepcopy(model)  # planted: MEM405
ref_model.eval()
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-7)


def get_batch_logps(logits, labels, mask):
    logits = logits[:, :-1, :]
    labels = labels[:, 1:]
    mask = mask[:, 1:]
    logps = torch.gather(logits.log_softmax(-1), 2, labels.unsqueeze(2)).squeeze(2)  # planted: MEM204
    return (logps * mask).sum(-1)


model.train()
for batch in loader:
    chosen = torch.cat([batch["prompt"], batch["chosen"]], dim=1).to("cuda")
    rejected = torch.cat([batch["prompt"], batch["rejected"]], dim=1).to("cuda")
    chosen_mask, rejected_mask = batch["chosen_mask"].to("cuda"), batch["rejected_mask"].to("cuda")
    pi_chosen = get_batch_logps(model(chosen, use_cache=False).logits, chosen, chosen_mask)
    pi_rejected = get_batch_logps(model(rejected, use_cache=False).logits, rejected, rejected_mask)
    ref_chosen = get_batch_logps(
        ref_model(chosen, use_cache=False).logits, chosen, chosen_mask  # planted: MEM703
    )
    ref_rejected = get_batch_logps(
        ref_model(rejected, use_cache=False).logits, rejected, rejected_mask  # planted: MEM703
    )
    ratio = (pi_chosen - ref_chosen) - (pi_rejected - ref_rejected)
    loss = -F.logsigmoid(0.1 * ratio).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
