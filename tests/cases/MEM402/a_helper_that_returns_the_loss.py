import torch
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("gpt2-xl", dtype=torch.float32).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)


def loss_of(batch):
    outputs = model(**batch, use_cache=False)  # expect: MEM402
    return outputs.loss


for batch in loader:
    loss_of(batch).backward()
    optimizer.step()
    optimizer.zero_grad()
