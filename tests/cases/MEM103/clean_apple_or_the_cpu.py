# about: An Apple GPU, or none.
import torch
from transformers import AutoModelForCausalLM
from trl import SFTConfig, SFTTrainer

device = "mps" if torch.backends.mps.is_available() else "cpu"
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B").to(device)
args = SFTConfig("out", per_device_train_batch_size=4)
SFTTrainer(model, args=args, train_dataset=rows).train()
