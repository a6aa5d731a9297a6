# about: A step that turns latents into pictures needs memory of other shapes.
import torch
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B").cuda()
optimizer = torch.optim.AdamW(model.parameters())
for batch in loader:
    pictures = painter.decode(batch.pop("latents"))
    (model(**batch).loss + likeness(pictures)).backward()
    optimizer.step()
    optimizer.zero_grad()
    torch.cuda.empty_cache()
