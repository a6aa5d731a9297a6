# about: Another head gives one number a position.
import torch
from torch import nn
from transformers import AutoModelForCausalLM


def critic():
    model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-0.5B", dtype=torch.bfloat16)
    model.lm_head = nn.Linear(model.lm_head.in_features, 1, bias=False)
    return model


values = critic()
values.train()
optimizer = torch.optim.AdamW(values.parameters())
for batch in loader:
    guessed = values(input_ids=batch["input_ids"], use_cache=False).logits
    loss = (guessed.squeeze(-1) - batch["returns"]).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
