import torch
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")


def score(ids):
    logits = model(input_ids=ids).logits[:, :-1]  # expect: MEM601
    picked = logits.gather(-1, ids[:, 1:].unsqueeze(-1)).squeeze(-1)
    return picked - torch.logsumexp(logits, dim=-1)


for prompt in loader:
    with torch.no_grad():
        rows = model.generate(**prompt, do_sample=True, num_return_sequences=4)
    loss = -(score(rows).sum(-1) * advantages(rows)).mean()
    loss.backward()
