import torch
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B").eval()
with torch.no_grad():
    for batch in loader:
        try:
            out = model(**batch, logits_to_keep=1)
        except TypeError:
            out = model(**batch)
        print(out.logits[:, -1, :].argmax(-1))
