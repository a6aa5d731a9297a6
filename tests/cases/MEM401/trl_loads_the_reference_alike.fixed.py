import torch
from transformers import AutoModelForCausalLM
from trl import DPOConfig, DPOTrainer

policy = AutoModelForCausalLM.from_pretrained(
    "meta-llama/Llama-3.2-1B",
    dtype=torch.bfloat16,
)
DPOTrainer(policy, args=DPOConfig("out"), train_dataset=rows).train()
