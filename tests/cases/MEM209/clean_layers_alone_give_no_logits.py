import torch
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B").cuda()
probe = torch.nn.Linear(4096, 2).cuda()
optimizer = torch.optim.AdamW([*model.parameters(), *probe.parameters()])
model.train()
print("trains a probe, not the logits")
for batch in loader:
    states = model.model(batch["input_ids"]).last_hidden_state
    torch.nn.functional.cross_entropy(probe(states[:, -1]), batch["labels"]).backward()
    optimizer.step()
    optimizer.zero_grad()
