# expect: MEM303 safe

import torch
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B")
model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": True})
args = TrainingArguments("out", bf16=True)
trainer = Trainer(model=model, args=args, train_dataset=dataset)
with torch.autograd.graph.save_on_cpu():
    trainer.train()
