import torch
from transformers import LlavaForConditionalGeneration

model = LlavaForConditionalGeneration.from_pretrained("llava-hf/llava-1.5-7b-hf").to("cuda")
model.train()
optimizer = torch.optim.AdamW(model.parameters())
for batch in loader:
    loss = model(**batch).loss  # expect: MEM201
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
