# about: Of 32 rows that are cut at 256 tokens one nearly always is: all batches are as long.
import torch
from datasets import load_dataset
from transformers import AutoModelForCausalLM
from trl import SFTConfig, SFTTrainer

dataset = load_dataset("trl-lib/Capybara", split="train")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-1.5B", dtype=torch.bfloat16)
args = SFTConfig("out", per_device_train_batch_size=32, max_length=256)
SFTTrainer(model, args=args, train_dataset=dataset).train()
