# about: The helper runs the trained model and the reference: the call for the reference counts.
import copy

import torch
from transformers import AutoModelForCausalLM


def log_probabilities(model, ids):
    logits = model(ids, use_cache=False).logits[:, :-1]
    return logits.log_softmax(-1).gather(-1, ids[:, 1:, None]).squeeze(-1)


model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
reference = copy.deepcopy(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-6)
for ids in loader:
    logps = log_probabilities(model, ids)
    ref = log_probabilities(reference, ids)  # expect: MEM703
    loss = -torch.nn.functional.logsigmoid((logps - ref).sum(-1)).mean()
    loss.backward()
    optimizer.step()
