# about: Adam that a script makes and gives to its trainer, by itself or by a helper.
import torch
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments


def pick(net, kind):
    if kind == "plain":
        return torch.optim.SGD(net.parameters(), lr=1e-3)
    return torch.optim.AdamW(net.parameters(), lr=1e-5)  # expect: MEM501


net = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B", dtype=torch.float32)
args = TrainingArguments("out", bf16=True)
Trainer(net, args, train_dataset=rows, optimizers=(pick(net, "adam"), None)).train()
