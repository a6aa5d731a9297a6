# about: One position a row, by an index of rows and one of positions: a row of the vocabulary each.
import torch
import torch.nn.functional as F
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")


def last_logits(ids, mask):
    last = (mask.long().sum(dim=1) - 1).clamp(min=0)
    rows = torch.arange(ids.size(0), device=ids.device)
    return model(input_ids=ids, attention_mask=mask).logits.float()[rows, last]


for batch in loader:
    logprobs = F.log_softmax(last_logits(batch["input_ids"], batch["attention_mask"]), dim=-1)
    chosen = logprobs[torch.arange(logprobs.size(0)), batch["actions"]]
    (-chosen * batch["advantages"]).mean().backward()
