# about: Both distributions are of all positions.
import torch
import torch.nn.functional as F
from transformers import AutoModelForCausalLM

student = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B").cuda()
teacher = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B").cuda()
optimizer = torch.optim.AdamW(student.parameters())
for batch in loader:
    with torch.no_grad():
        wanted = teacher(batch["ids"]).logits.flatten(0, 1)
    logits = student(batch["ids"]).logits.flatten(0, 1)
    answer = batch["labels"].flatten() != -100
    words = logits.log_softmax(-1)  # expect: MEM204
    loss = F.kl_div(words, wanted.softmax(-1), reduction="none").sum(-1)[answer].mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
