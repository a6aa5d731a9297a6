# about: A chunk may run backward by itself; positions that nothing learns are left out.
import torch
import torch.nn.functional as F
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B").cuda()
optimizer = torch.optim.AdamW(model.parameters())
model.train()
for batch in loader:
    hidden, labels = model.model(batch["input_ids"])[0], batch["labels"]
    states = hidden.detach().requires_grad_()
    for part, wanted in zip(states.chunk(8, dim=1), labels.chunk(8, dim=1)):
        logits = model.lm_head(part).float()
        F.cross_entropy(logits.flatten(0, 1), wanted.flatten(), reduction="sum").backward()
    for start in range(0, hidden.size(1), 512):
        logits = model.lm_head(states[:, start : start + 512]).float()
        F.cross_entropy(logits.flatten(0, 1), labels[:, start : start + 512].flatten()).backward()
    learned = labels != -100
    F.cross_entropy(model.lm_head(states[learned]).float(), labels[learned]).backward()
    hidden.backward(states.grad)
    optimizer.step()
    optimizer.zero_grad()
