import torch
from transformers import AutoModelForCausalLM


def optimizer_of(model, rate):
    decayed, others = [], []
    for name, weight in model.named_parameters():
        if not weight.requires_grad:
            continue
        (others if "norm" in name or name.endswith("bias") else decayed).append(weight)
    groups = [{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=rate)  # expect: MEM501


model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B", dtype="float32").cuda()
optimizer = optimizer_of(model, 1e-5)
model.train()
for batch in loader:
    model(**batch).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
