import torch
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B").to("cuda")
for prompt in loader:
    with torch.no_grad():
        answers = [model.generate(**prompt, do_sample=True) for _ in range(8)]
    rows = torch.cat(answers)
    logits = model(rows).logits[:, :-1]  # expect: MEM601
    chosen = torch.log_softmax(logits, dim=-1).gather(-1, rows[:, 1:].unsqueeze(-1))
    loss = -(chosen.squeeze(-1).sum(-1) * advantages(rows)).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
