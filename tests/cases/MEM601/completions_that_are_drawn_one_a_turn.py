import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B").to("cuda")
tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")


def draw(text, group_size):
    inputs = tokenizer(text, return_tensors="pt").to("cuda")
    found = []
    for _ in range(group_size):
        with torch.no_grad():
            found.append(model.generate(**inputs, do_sample=True, max_new_tokens=64))
    return found


for text in texts:
    answers = draw(text, settings.group_size)
    gains = advantages(answers)
    for ids, gain in zip(answers, gains):
        logits = model(ids).logits[:, :-1]  # expect: MEM601
        chosen = torch.log_softmax(logits, dim=-1).gather(-1, ids[:, 1:].unsqueeze(-1))
        (-gain * chosen.squeeze(-1).sum()).backward()
    optimizer.step()
    optimizer.zero_grad()
