import torch
from transformers import AutoModelForCausalLM


def log_probabilities(model, ids, mask):
    logits = model(input_ids=ids, attention_mask=mask).logits  # expect: MEM209
    logits = logits[:, :-1, :] / 0.9
    picked = torch.gather(logits.log_softmax(-1), 2, ids[:, 1:].unsqueeze(2))
    return picked.squeeze(2)


model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
for prompts, ids, mask, advantages in loader:
    start = prompts.shape[1]
    found = log_probabilities(model, ids, mask)[:, start - 1 :]
    loss = -(found * advantages).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
