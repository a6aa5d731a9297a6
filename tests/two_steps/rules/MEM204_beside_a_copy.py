# data: preference
"""DPO written by hand, with a frozen copy of the policy as its reference."""

import copy

import torch
import torch.nn.functional as F
from datasets import load_dataset
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM, AutoTokenizer

MODEL = "Qwen/Qwen2.5-0.5B-Instruct"
BETA = 0.1

tokenizer = AutoTokenizer.from_pretrained(MODEL)
policy = AutoModelForCausalLM.from_pretrained(MODEL)
reference = copy.deepcopy(policy)
reference.eval()


def collate(rows):
    ids, masks = [], []
    for key in ("chosen", "rejected"):
        for row in rows:
            prompt = tokenizer(row["prompt"])["input_ids"]
            answer = tokenizer(row[key])["input_ids"]
            ids.append(torch.tensor(prompt + answer))
            masks.append(torch.tensor([0] * len(prompt) + [1] * len(answer)))
    padded = pad_sequence(ids, batch_first=True, padding_value=tokenizer.pad_token_id)
    return padded, pad_sequence(masks, batch_first=True)


def answer_logps(logits, ids, mask):
    logps = logits[:, :-1].float().log_softmax(-1)
    token_logps = torch.gather(logps, -1, ids[:, 1:].unsqueeze(-1)).squeeze(-1)
    return (token_logps * mask[:, 1:]).sum(-1)


dataset = load_dataset("Anthropic/hh-rlhf", split="train")
loader = DataLoader(dataset, batch_size=2, collate_fn=collate)
optimizer = torch.optim.AdamW(policy.parameters(), lr=1e-3)

for step, (ids, mask) in enumerate(loader):
    attention = (ids != tokenizer.pad_token_id).long()
    policy_logps = answer_logps(policy(ids, attention_mask=attention).logits, ids, mask)
    with torch.no_grad():
        logits = reference(ids, attention_mask=attention).logits
        reference_logps = answer_logps(logits, ids, mask)
    chosen, rejected = (policy_logps - reference_logps).chunk(2)
    loss = -F.logsigmoid(BETA * (chosen - rejected)).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(f"step {step}: loss {loss.item():.7f}")
    if step == 3:
        break
