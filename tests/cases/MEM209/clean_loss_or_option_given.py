import torch
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
for ids in loader:
    outputs = model(input_ids=ids, labels=ids)
    print(outputs.loss, outputs.logits[:, -1])
    print(model(input_ids=ids, logits_to_keep=4).logits[:, -1])
