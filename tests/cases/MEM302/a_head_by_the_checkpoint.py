# target: transformers=4.57
import torch
from transformers import AutoModelWithLMHead

model = AutoModelWithLMHead.from_pretrained("gpt2").to("cuda")
optimizer = torch.optim.AdamW(model.parameters())
for ids in loader:
    outputs = model(ids.to("cuda"), labels=ids.to("cuda"))  # expect: MEM302
    outputs[0].backward()
    optimizer.step()
    optimizer.zero_grad()
