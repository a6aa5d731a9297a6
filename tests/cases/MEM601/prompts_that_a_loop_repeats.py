# about: a list that an inner loop fills, a batch that is joined of one question's ids
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen2.5-1.5B")
policy = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-1.5B", dtype=torch.bfloat16).cuda()
optimizer = torch.optim.AdamW(policy.parameters())
TRIES = 8

for questions in loader:
    rows = []
    for question in questions:
        for _ in range(TRIES):
            rows.append(question)
    batch = tokenizer(rows, return_tensors="pt", padding=True).to("cuda")
    with torch.no_grad():
        drawn = policy.generate(**batch, do_sample=True)
    logits = policy(drawn).logits[:, :-1]  # expect: MEM601
    shares = logits.log_softmax(-1).gather(-1, drawn[:, 1:, None]).squeeze(-1)
    (-shares.sum(-1) * rewards(drawn)).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
