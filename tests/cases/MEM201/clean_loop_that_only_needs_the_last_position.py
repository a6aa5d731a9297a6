# about: One position a row: logits of a row, not of a matrix.
import torch
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
optimizer = torch.optim.AdamW(model.parameters())

for batch in loader:
    logits = model(batch["input_ids"], logits_to_keep=1).logits[:, -1]
    torch.nn.functional.cross_entropy(logits, batch["answer"]).backward()
    optimizer.step()
