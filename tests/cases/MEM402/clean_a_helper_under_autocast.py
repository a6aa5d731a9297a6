import torch
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("gpt2-xl", dtype=torch.float32).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)


def loss_of(batch):
    outputs = model(**batch, use_cache=False)
    return outputs.loss


for batch in loader:
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = loss_of(batch)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
