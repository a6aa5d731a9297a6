# about: Nothing is kept for a backward pass.
import torch
from transformers import AutoModelForCausalLM
from trl.trainer.utils import selective_log_softmax

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
for ids in loader:
    with torch.no_grad():
        old = selective_log_softmax(model(ids).logits[:, :-1], ids[:, 1:])
    loss_of(old, ids).backward()
