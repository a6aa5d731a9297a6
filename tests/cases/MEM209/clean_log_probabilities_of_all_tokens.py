import torch
from transformers import AutoModelForCausalLM


def log_probabilities(model, ids, mask):
    logits = model(input_ids=ids, attention_mask=mask).logits[:, :-1]
    return torch.gather(logits.log_softmax(-1), 2, ids[:, 1:].unsqueeze(2)).squeeze(2)


model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
for ids, mask, weights in loader:
    found = log_probabilities(model, ids, mask)
    print(found[:, -1], found[:, start:].mean())
    loss = -(found * weights).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
