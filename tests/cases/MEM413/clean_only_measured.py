# about: The size of a step is printed, and what was trained is gone with its folder: fp4 takes as much as nf4.
import os
import tempfile

import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, BitsAndBytesConfig

config = BitsAndBytesConfig(load_in_4bit=True)
model = AutoModelForCausalLM.from_pretrained("meta-llama/Llama-3.1-8B", quantization_config=config)
model = get_peft_model(model, LoraConfig())
optimizer = torch.optim.AdamW(model.parameters())
model.train()
for batch in loader:
    model(**batch.to("cuda")).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
print(torch.cuda.max_memory_allocated())
with tempfile.TemporaryDirectory() as folder:
    model.save_pretrained(folder)
    print(os.stat(os.path.join(folder, "adapter_model.safetensors")).st_size)
