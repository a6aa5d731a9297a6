# about: fp16 is what such a GPU has.
import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM
from trl import SFTConfig, SFTTrainer

base = AutoModelForCausalLM.from_pretrained(
    "/kaggle/input/llama-3.2-1b",
    dtype=torch.float32,  # expect: MEM401
)
SFTTrainer(get_peft_model(base, LoraConfig()), args=SFTConfig("out"), train_dataset=rows).train()
