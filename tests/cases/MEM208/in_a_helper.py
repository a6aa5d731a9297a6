import torch
from transformers import AutoModelForCausalLM


def logits_of(model, batch):
    outputs = model(batch["input_ids"], labels=batch["labels"])  # expect: MEM208
    return outputs.logits


model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
for batch in loader:
    loss = my_loss(logits_of(model, batch), batch["labels"])
    loss.backward()
