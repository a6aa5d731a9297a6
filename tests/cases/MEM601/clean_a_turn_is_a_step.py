import torch
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B").to("cuda")
for _ in range(num_samples):
    prompt = next(prompts)
    with torch.no_grad():
        rows = model.generate(**prompt, do_sample=True)
    logits = model(rows).logits[:, :-1]
    chosen = torch.log_softmax(logits, dim=-1).gather(-1, rows[:, 1:].unsqueeze(-1))
    loss = -(chosen.squeeze(-1).sum(-1) * advantages(rows)).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
