import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, BitsAndBytesConfig

base = AutoModelForCausalLM.from_pretrained("mistralai/Mistral-7B-v0.3", quantization_config=BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=torch.bfloat16))
model = get_peft_model(base, LoraConfig())
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
for batch in loader:
    model(**batch).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
