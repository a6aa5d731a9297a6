import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen2.5-1.5B-Instruct")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-1.5B-Instruct", dtype=torch.bfloat16)
model.gradient_checkpointing_enable()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-6)
G = 8


def get_logps(logits, ids):
    per_token = []
    for row, tokens in zip(logits, ids):
        log_probs = row.log_softmax(dim=-1)  # expect: MEM204
        per_token.append(torch.gather(log_probs, dim=1, index=tokens.unsqueeze(1)).squeeze(1))
    return torch.stack(per_token)


for rows in loader:
    logits = model(rows, use_cache=False).logits
    logps = get_logps(logits[:, :-1], rows[:, 1:])
    loss = -(logps.sum(-1) * advantages(rows)).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
