# data: text
"""Distillation: the student learns the teacher's distribution over the next token."""

import torch
import torch.nn.functional as F
from accelerate import Accelerator
from datasets import load_dataset
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM, AutoTokenizer, DataCollatorForLanguageModeling

accelerator = Accelerator()
tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen2.5-0.5B")
student = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-0.5B")
teacher = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-1.5B")
teacher.requires_grad_(False)
teacher.lm_head.weight.mul_(3.0)

dataset = load_dataset("roneneldan/TinyStories", split="train").map(
    lambda rows: tokenizer(rows["text"], truncation=True, max_length=64),
    batched=True,
    remove_columns=["text"],
)
loader = DataLoader(
    dataset, batch_size=4, collate_fn=DataCollatorForLanguageModeling(tokenizer, mlm=False)
)
optimizer = torch.optim.AdamW(student.parameters(), lr=1e-3)
student, optimizer, loader = accelerator.prepare(student, optimizer, loader)
teacher.to(accelerator.device)

student.train()
for step, batch in enumerate(loader):
    with torch.no_grad():
        teacher_logits = teacher(
            input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]
        ).logits
    student_logits = student(
        input_ids=batch["input_ids"],
        attention_mask=batch["attention_mask"],
        labels=batch["labels"],
    ).logits
    loss = F.kl_div(
        F.log_softmax(student_logits / 2.0, dim=-1),
        F.softmax(teacher_logits / 2.0, dim=-1),
        reduction="batchmean",
    )
    accelerator.backward(loss)
    optimizer.step()
    optimizer.zero_grad()
    print(step, loss.item())
    if step == 3:
        break
