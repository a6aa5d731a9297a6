# about: The copy has a name, the loss is a module.
import torch
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
criterion = torch.nn.CrossEntropyLoss()
for batch in loader:
    logits = model(batch["input_ids"]).logits.float()
    loss = criterion(logits.view(-1, logits.size(-1)), batch["labels"].view(-1))  # expect: MEM204
    loss.backward()
