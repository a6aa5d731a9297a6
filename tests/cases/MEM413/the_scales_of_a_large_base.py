import torch
from peft import LoraConfig
from transformers import AutoModelForCausalLM, BitsAndBytesConfig
from trl import SFTConfig, SFTTrainer

config = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4")  # expect: MEM413 hint
model = AutoModelForCausalLM.from_pretrained("meta-llama/Llama-3.1-70B", quantization_config=config)
SFTTrainer(model, args=SFTConfig(), peft_config=LoraConfig(), train_dataset=rows).train()
