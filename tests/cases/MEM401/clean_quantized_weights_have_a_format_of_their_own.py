# about: Quantized weights have a format of their own.
import torch
from transformers import AutoModelForCausalLM, BitsAndBytesConfig
from trl import SFTConfig, SFTTrainer

model = AutoModelForCausalLM.from_pretrained(
    "Qwen/Qwen3-8B", quantization_config=BitsAndBytesConfig(load_in_4bit=True), dtype=torch.float32
)
SFTTrainer(model, args=SFTConfig(packing=True))
