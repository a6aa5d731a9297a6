import torch
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("somebody/their-own-7b", trust_remote_code=True)
for ids in loader:
    with torch.no_grad():
        logits = model(ids)["logits"]
    print(logits[:, -1, :].softmax(-1))
