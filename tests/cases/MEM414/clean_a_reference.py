import copy
import torch
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-7B", dtype=torch.bfloat16)
model = model.cuda()
model.train()
ref = copy.deepcopy(model).eval()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
for batch in loader:
    loss = model(**batch).loss
    loss.backward()
    with torch.no_grad():
        wanted = ref(**batch).logits
    optimizer.step()
    optimizer.zero_grad()
