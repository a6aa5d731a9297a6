import torch
from torch.optim.swa_utils import AveragedModel
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-7B", dtype=torch.bfloat16)
model = model.cuda()
model.train()
ema = AveragedModel(model, device='cpu')
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
for batch in loader:
    loss = model(**batch).loss
    loss.backward()
    optimizer.step()
    ema.update_parameters(model)
    optimizer.zero_grad()
