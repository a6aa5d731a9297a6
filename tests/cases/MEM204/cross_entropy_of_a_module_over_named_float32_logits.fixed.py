import torch
from transformers import AutoModelForCausalLM
from memlint_runtime.losses import defer_logits

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
defer_logits(model)
criterion = torch.nn.CrossEntropyLoss()
for batch in loader:
    logits = model(batch["input_ids"]).logits.float()
    loss = criterion(logits.view(-1, logits.size(-1)), batch["labels"].view(-1))
    loss.backward()
