# about: Put on an Apple GPU where it is loaded.
import torch
from transformers import AutoModelForCausalLM
from trl import SFTConfig, SFTTrainer

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B", device_map={"": "mps:0"})
args = SFTConfig("out", per_device_train_batch_size=4)
SFTTrainer(model, args=args, train_dataset=rows).train()
