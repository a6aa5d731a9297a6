# about: The cross entropy is a module, the logits have no name.
import torch
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
optimizer = torch.optim.AdamW(model.parameters())

criterion = torch.nn.CrossEntropyLoss(ignore_index=-100)
for batch in loader:
    loss = criterion(model(batch["input_ids"]).logits.transpose(1, 2), batch["labels"])  # expect: MEM201
    loss.backward()
    optimizer.step()
