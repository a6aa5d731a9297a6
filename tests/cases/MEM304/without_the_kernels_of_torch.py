# about: switched off one by one; with cuDNN's left on it is a hint, as it may run
import torch
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

torch.backends.cuda.enable_flash_sdp(False)  # expect: MEM304
torch.backends.cuda.enable_mem_efficient_sdp(False)
torch.backends.cuda.enable_cudnn_sdp(False)
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
Trainer(model, TrainingArguments("out"), train_dataset=rows).train()
