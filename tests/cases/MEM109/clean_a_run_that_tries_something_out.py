# about: A hundred steps, five prompts, or none at all: nothing has time to break up.
import torch
from datasets import Dataset, load_dataset
from transformers import AutoModelForCausalLM
from trl import DPOConfig, DPOTrainer, GRPOConfig, GRPOTrainer

dataset = load_dataset("trl-lib/ultrafeedback_binarized", split="train")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-1.5B", dtype=torch.bfloat16)
DPOTrainer(model, args=DPOConfig("out", max_steps=100), train_dataset=dataset).train()

prompts = Dataset.from_dict({"prompt": ["Sing", "Count", "Draw", "Write", "Add"]})
GRPOTrainer("Qwen/Qwen3-1.7B", reward, args=GRPOConfig("out"), train_dataset=prompts).train()

made = DPOTrainer(model, args=DPOConfig("out"), train_dataset=dataset)
model.push_to_hub("mine")
