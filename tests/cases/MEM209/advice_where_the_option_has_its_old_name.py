# target: transformers=4.46,trl=0.12
import torch
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2-0.5B")
with torch.no_grad():
    for ids in loader:
        print(model(input_ids=ids).logits[:, -1])  # expect: MEM209
