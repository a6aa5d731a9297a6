# about: Chunks of one batch, put together and returned.
import torch
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B").to("cuda")


def log_probabilities(ids):
    found = []
    for chunk in ids.split(4):
        logits = model(input_ids=chunk).logits[:, :-1]
        picked = torch.log_softmax(logits, -1).gather(-1, chunk[:, 1:].unsqueeze(-1))
        found.append(picked)
    return torch.cat(found)


for batch in loader:
    loss = -log_probabilities(batch["input_ids"]).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
