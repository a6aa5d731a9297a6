import torch
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B").cuda()
optimizer = torch.optim.AdamW(model.parameters())
model.train()
for batch in loader:
    hidden = model.model(batch["input_ids"]).last_hidden_state
    logits = model.lm_head(hidden[:, -1]).float()
    torch.nn.functional.cross_entropy(logits, batch["answers"]).backward()
    optimizer.step()
    optimizer.zero_grad()
