import torch.nn.functional as F
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-7B")
for ids, told in loader:
    choices = model(ids).logits[:, :, :4].float() / 2.0
    F.kl_div(F.log_softmax(choices, -1), told, log_target=True).backward()
