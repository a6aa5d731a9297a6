import torch
from transformers import AutoModelForCausalLM


@torch.no_grad()
def score(model, ids, mask, answers):
    logits = model(input_ids=ids, attention_mask=mask).logits[:, -1]  # expect: MEM209
    return logits[:, answers].log_softmax(-1)


model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
score(model, ids, mask, answers)
