# about: Two groups hold all parameters.
import torch
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("meta-llama/Llama-3.1-8B", dtype=torch.float32)
model.train()
plain = ("bias", "norm.weight")
groups = [
    {
        "params": [p for n, p in model.named_parameters() if not any(x in n for x in plain)],
        "weight_decay": 0.1,
    },
    {"params": [p for n, p in model.named_parameters() if any(x in n for x in plain)]},
]
optimizer = torch.optim.AdamW(groups, lr=1e-4)  # expect: MEM501
for batch in loader:
    model(**batch).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
