# about: Backward would run under autocast, too, which torch advises against.
import torch
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("gpt2-xl", dtype=torch.float32).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
for batch in loader:
    model(**batch, use_cache=False).loss.backward()  # expect: MEM402
    optimizer.step()
    optimizer.zero_grad()
