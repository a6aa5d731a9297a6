from lightning.fabric import Fabric
import torch
from transformers import AutoModelForCausalLM

fabric = Fabric(accelerator="cuda", precision="bf16-mixed")
model = AutoModelForCausalLM.from_pretrained("gpt2")
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
model, optimizer = fabric.setup(model, optimizer)
for batch in fabric.setup_dataloaders(loader):
    fabric.backward(model(**batch).loss)
    optimizer.step()
    optimizer.zero_grad()
