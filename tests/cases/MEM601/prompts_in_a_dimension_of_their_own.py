import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

tok = AutoTokenizer.from_pretrained("Qwen/Qwen2.5-1.5B-Instruct")
net = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-1.5B-Instruct", dtype=torch.bfloat16)
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-6)
for texts in rows:
    given = tok(texts, return_tensors="pt", padding=True)
    ids = given.input_ids.unsqueeze(1).expand(-1, 6, -1).flatten(0, 1)
    with torch.no_grad():
        drawn = net.generate(ids, do_sample=True, max_new_tokens=64)
    logits = net(drawn, use_cache=False).logits[:, :-1]  # expect: MEM601
    taken = drawn[:, 1:].unsqueeze(-1)
    chosen = torch.log_softmax(logits, -1).gather(-1, taken).squeeze(-1)
    (-(chosen.sum(-1) * worth(drawn)).mean()).backward()
    optimizer.step()
    optimizer.zero_grad()
