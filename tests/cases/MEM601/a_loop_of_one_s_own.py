import torch
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
for prompt in loader:
    with torch.no_grad():
        rows = model.generate(**prompt, do_sample=True, num_return_sequences=8)
    logits = model(rows).logits[:, :-1]  # expect: MEM601
    logprobs = torch.log_softmax(logits, dim=-1).gather(-1, rows[:, 1:].unsqueeze(-1))
    loss = -(logprobs.squeeze(-1).sum(-1) * advantages(rows)).mean()
    loss.backward()
