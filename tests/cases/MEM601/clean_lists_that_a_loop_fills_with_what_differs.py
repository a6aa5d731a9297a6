# about: another question in each turn, lines that nothing tokenizes
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen2.5-1.5B")
policy = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-1.5B", dtype=torch.bfloat16).cuda()
optimizer = torch.optim.AdamW(policy.parameters())

for questions in loader:
    rows, lines = [], []
    for number in range(8):
        rows.append(questions[number])
    for _ in range(8):
        lines.append(title)
    print("".join(lines))
    batch = tokenizer(rows, return_tensors="pt", padding=True).to("cuda")
    with torch.no_grad():
        drawn = policy.generate(**batch, do_sample=True)
    logits = policy(drawn).logits[:, :-1]
    shares = logits.log_softmax(-1).gather(-1, drawn[:, 1:, None]).squeeze(-1)
    (-shares.sum(-1) * rewards(drawn)).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
