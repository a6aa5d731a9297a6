# about: Nobody knows what it loads, but what is prepared for it is quantized.
import torch
from loading import fetch
from peft import LoraConfig, get_peft_model, prepare_model_for_kbit_training

model = prepare_model_for_kbit_training(fetch("Qwen/Qwen3-4B"))  # expect: MEM303
model = get_peft_model(model, LoraConfig(r=8))
optimizer = torch.optim.AdamW(model.parameters())
for batch in loader:
    model(**batch).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
