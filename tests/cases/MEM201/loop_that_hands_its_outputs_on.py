# about: What keeps them may read the logits: the fix is an unsafe one.
import torch
from records import keep
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B").cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
model.train()
for batch in loader:
    outputs = model(**batch, use_cache=False)  # expect: MEM201
    keep(outputs)
    outputs.loss.backward()
    optimizer.step()
    optimizer.zero_grad()
