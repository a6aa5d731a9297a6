import torch
from torchao.prototype.low_bit_optim import CPUOffloadOptimizer
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-4B")


def optimizer_of(weights):
    return CPUOffloadOptimizer(weights, torch.optim.AdamW, offload_gradients=True)  # expect: MEM505


args = TrainingArguments("out", gradient_accumulation_steps=2)
optimizers = (optimizer_of(model.parameters()), None)
Trainer(model, args, train_dataset=rows, optimizers=optimizers).train()
