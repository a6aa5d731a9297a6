import torch
from transformers import AutoModelForCausalLM

teacher = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-7B", dtype=torch.bfloat16).cuda()
student = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-0.5B", dtype=torch.bfloat16).cuda()
student.train()
for name, weight in teacher.named_parameters():
    weight.requires_grad = False
optimizer = torch.optim.AdamW(student.parameters())  # expect: MEM507
for batch in loader:
    with torch.no_grad():
        wanted = teacher(**batch, use_cache=False).logits.softmax(-1)
    logits = student(**batch, use_cache=False).logits
    loss = torch.nn.functional.kl_div(logits.log_softmax(-1), wanted, reduction="batchmean")
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
