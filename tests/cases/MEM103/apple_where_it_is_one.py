# about: An Apple GPU on one machine, CUDA on the other.
import torch
from transformers import AutoModelForCausalLM
from trl import SFTConfig, SFTTrainer

device = "mps" if torch.backends.mps.is_available() else "cuda"
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B").to(device)
args = SFTConfig("out", per_device_train_batch_size=4)  # expect: MEM103
SFTTrainer(model, args=args, train_dataset=rows).train()
