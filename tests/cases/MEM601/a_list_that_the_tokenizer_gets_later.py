import torch
import torch.nn.functional as F
from transformers import AutoModelForCausalLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B").to("cuda")
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-6)
for text, wanted in loader:
    copies = [text] * 8
    given = tokenizer(copies, return_tensors="pt", padding=True).to("cuda")
    rows = model.generate(**given, do_sample=True)
    scores = model(rows).logits[:, :-1]  # expect: MEM601
    entries = F.log_softmax(scores, -1).gather(-1, rows[:, 1:, None]).squeeze(-1)
    (-(entries.sum(-1) * gains(rows, wanted)).mean()).backward()
    optimizer.step()
    optimizer.zero_grad()
