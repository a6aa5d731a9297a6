import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM

base = AutoModelForCausalLM.from_pretrained("mistralai/Mistral-7B-v0.3")  # expect: MEM407
model = get_peft_model(base, LoraConfig())
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
for batch in loader:
    model(**batch).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
