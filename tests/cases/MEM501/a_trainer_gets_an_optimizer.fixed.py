import torch
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
from bitsandbytes.optim import AdamW8bit


def pick(net, kind):
    if kind == "plain":
        return torch.optim.SGD(net.parameters(), lr=1e-3)
    return AdamW8bit(net.parameters(), lr=1e-5)


net = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B", dtype=torch.float32)
args = TrainingArguments("out", bf16=True)
Trainer(net, args, train_dataset=rows, optimizers=(pick(net, "adam"), None)).train()
