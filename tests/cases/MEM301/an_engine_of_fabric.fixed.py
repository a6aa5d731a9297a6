import lightning as L
import torch
from transformers import AutoModelForCausalLM

fabric = L.Fabric(accelerator="cuda", precision="bf16-mixed")
fabric.launch()
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
model.activation_checkpointing_enable(activation_checkpointing_kwargs={"use_reentrant": False})
model.train()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
model, optimizer = fabric.setup(model, optimizer)
for batch in fabric.setup_dataloaders(loader):
    loss = model(**batch).loss
    fabric.backward(loss)
    optimizer.step()
    optimizer.zero_grad()
