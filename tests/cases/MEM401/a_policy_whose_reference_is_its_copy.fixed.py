from transformers import AutoModelForCausalLM
from trl import DPOConfig, DPOTrainer
import torch

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-0.5B-Instruct", dtype=torch.bfloat16)
DPOTrainer(model=model, args=DPOConfig("out"), train_dataset=rows).train()
