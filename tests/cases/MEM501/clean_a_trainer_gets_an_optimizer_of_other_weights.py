# about: Adam of some weights, of 16-bit weights, and one of 8 bits.
import torch
from bitsandbytes.optim import AdamW8bit
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

net = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B", dtype=torch.float32)
vectors = [one for one in net.parameters() if one.ndim == 1]
some = torch.optim.AdamW(vectors, lr=1e-5)
Trainer(net, TrainingArguments("out"), train_dataset=rows, optimizers=(some, None)).train()
small = AdamW8bit(net.parameters(), lr=1e-5)
Trainer(net, TrainingArguments("out"), train_dataset=rows, optimizers=(small, None)).train()
narrow = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B", dtype=torch.bfloat16)
adam = torch.optim.AdamW(narrow.parameters(), lr=1e-5)
Trainer(narrow, TrainingArguments("out"), train_dataset=rows, optimizers=(adam, None)).train()
