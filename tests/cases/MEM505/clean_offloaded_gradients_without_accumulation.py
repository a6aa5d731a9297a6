import torch
from torchao.optim import CPUOffloadOptimizer
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-4B", device_map="cuda")
stepper = CPUOffloadOptimizer(model.parameters(), torch.optim.AdamW, offload_gradients=True)
for rows in loader:
    model(**rows).loss.backward()
    stepper.step()
    stepper.zero_grad()
other = CPUOffloadOptimizer(model.parameters(), torch.optim.AdamW, offload_gradients=True)
args = TrainingArguments("out", gradient_accumulation_steps=1)
Trainer(model, args, train_dataset=rows, optimizers=(other, None)).train()
