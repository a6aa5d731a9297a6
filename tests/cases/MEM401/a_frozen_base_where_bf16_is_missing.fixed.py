import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM
from trl import SFTConfig, SFTTrainer

base = AutoModelForCausalLM.from_pretrained(
    "/kaggle/input/llama-3.2-1b",
    dtype=torch.float16,
)
SFTTrainer(get_peft_model(base, LoraConfig()), args=SFTConfig("out"), train_dataset=rows).train()
