import torch
from datasets import load_dataset
from transformers import AutoModelForCausalLM
from trl import DPOConfig, DPOTrainer

dataset = load_dataset("org/pairs", split="train")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-7B", dtype=torch.bfloat16)
args = DPOConfig("out", per_device_train_batch_size=4)
DPOTrainer(model, args=args, train_dataset=dataset).train()  # expect: MEM109
