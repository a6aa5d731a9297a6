import torch
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B", device_map="auto")


@torch.inference_mode()
def score(loader):
    found = []
    for batch in loader:
        logits = model(**batch).logits
        found.append(torch.softmax(logits, dim=-1))  # expect: MEM702
    return found


score(loader)
