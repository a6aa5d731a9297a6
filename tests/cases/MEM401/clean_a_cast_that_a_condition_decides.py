# about: A cast where the GPU has no bf16.
import torch
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

net = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B", dtype=torch.bfloat16)
if not torch.cuda.is_bf16_supported():
    net = net.float()
Trainer(net, TrainingArguments("out"), train_dataset=rows).train()
