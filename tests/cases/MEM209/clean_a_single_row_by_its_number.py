import torch
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B").eval()


def continued(prompt, steps):
    ids = tokenizer(prompt, return_tensors="pt").input_ids
    for _ in range(steps):
        logits = model(ids).logits
        following = torch.argmax(logits[:, -1:], dim=-1)
        ids = torch.cat([ids, following], dim=1)
        if following.item() == tokenizer.eos_token_id:
            break
    return ids


for prompt in prompts:
    with torch.no_grad():
        outputs = model(**tokenizer(prompt, return_tensors="pt"))
    last = outputs.logits[:, -1, :]
    print(torch.argmax(last, dim=-1).item(), continued(prompt, 64))
