import torch
from peft import LoraConfig
from transformers import AutoModelForCausalLM, BitsAndBytesConfig
from trl import SFTConfig, SFTTrainer

dtype = torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float16
bits = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_compute_dtype=dtype)
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B", quantization_config=bits)
SFTTrainer(model, args=SFTConfig(), peft_config=LoraConfig(), train_dataset=dataset).train()
