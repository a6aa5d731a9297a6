import torch
from peft import LoraConfig
from transformers import AutoModelForCausalLM, BitsAndBytesConfig
from trl import SFTConfig, SFTTrainer


def quantization(qlora):
    if qlora:
        return BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4")
    return BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_compute_dtype=torch.bfloat16)


model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B", quantization_config=quantization(qlora))
SFTTrainer(model, args=SFTConfig(), peft_config=LoraConfig(), train_dataset=dataset).train()
