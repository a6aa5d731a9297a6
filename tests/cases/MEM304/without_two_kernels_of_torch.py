import torch
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

torch.backends.cuda.enable_mem_efficient_sdp(False)
torch.backends.cuda.enable_flash_sdp(False)  # expect: MEM304 hint
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B", attn_implementation="sdpa")
Trainer(model, TrainingArguments("out"), train_dataset=rows).train()
