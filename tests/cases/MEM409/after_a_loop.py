# about: The checkpoint is a name of the script's; the second load is moved to the GPU.
import sys
import torch
from transformers import AutoModelForCausalLM

name = sys.argv[1]
model = AutoModelForCausalLM.from_pretrained(name).cuda()
optimizer = torch.optim.AdamW(model.parameters())
for batch in loader:
    model(**batch).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
model.save_pretrained("out")
base = AutoModelForCausalLM.from_pretrained(name)  # expect: MEM409
base.to("cuda")
compare(base, model)
