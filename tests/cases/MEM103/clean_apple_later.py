# about: Moved to an Apple GPU in a statement of its own.
import torch
from transformers import AutoModelForCausalLM
from trl import SFTConfig, SFTTrainer

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
model.to(device=torch.device("mps"))
args = SFTConfig("out", per_device_train_batch_size=4)
SFTTrainer(model, args=args, train_dataset=rows).train()
