# about: A hand-written loop may ask the model where it is: advice.
import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B")  # expect: MEM412
model = get_peft_model(model, LoraConfig()).cuda()
optimizer = torch.optim.AdamW(model.parameters())
model.train()
for batch in loader:
    loss = model(**batch.to(model.device)).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
