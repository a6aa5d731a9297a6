# about: Four rows of 128 tokens at the most differ by some 0.5 GiB, and their holes by less.
import torch
from datasets import load_dataset
from transformers import AutoModelForCausalLM
from trl import SFTConfig, SFTTrainer

dataset = load_dataset("trl-lib/Capybara", split="train")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-1.5B", dtype=torch.bfloat16)
args = SFTConfig("out", per_device_train_batch_size=4, max_length=128)
SFTTrainer(model, args=args, train_dataset=dataset).train()
