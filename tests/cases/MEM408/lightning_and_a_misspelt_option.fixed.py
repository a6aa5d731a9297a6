import lightning
import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, BitsAndBytesConfig

bits = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_compute_type=torch.bfloat16, bnb_4bit_compute_dtype=torch.bfloat16)
model = AutoModelForCausalLM.from_pretrained("mistralai/Mistral-7B-v0.1", quantization_config=bits)
model = get_peft_model(model, LoraConfig())
lightning.Trainer().fit(wrap(model), loader)
