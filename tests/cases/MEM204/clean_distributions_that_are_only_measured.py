# about: Nothing runs backward: the divergence is a number to look at.
import torch
import torch.nn.functional as F
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B").to("cuda")
before = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B").to("cuda")
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
for step, batch in enumerate(loader):
    model(**batch).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    if step % 100 == 0:
        with torch.no_grad():
            now = F.log_softmax(model(**batch).logits, dim=-1)
            drift = F.kl_div(now, F.softmax(before(**batch).logits, dim=-1))
        print(drift.item())
