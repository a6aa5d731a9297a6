# about: A frozen base in float32.
import torch
from peft import LoraConfig
from transformers import AutoModelForCausalLM
from trl import SFTConfig, SFTTrainer

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B", dtype=torch.float32)  # expect: MEM401
trainer = SFTTrainer(model, args=SFTConfig(packing=True), peft_config=LoraConfig())
