import torch
from transformers import LlavaForConditionalGeneration
from memlint_runtime import fuse_causal_lm_loss

model = LlavaForConditionalGeneration.from_pretrained("llava-hf/llava-1.5-7b-hf").to("cuda")
fuse_causal_lm_loss(model, fuse_evaluation=True)
model.train()
optimizer = torch.optim.AdamW(model.parameters())
for batch in loader:
    loss = model(**batch).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
