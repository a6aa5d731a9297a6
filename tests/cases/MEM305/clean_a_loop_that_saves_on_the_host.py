# about: short rows, a prompt of a generation, offloaded by torch, not checkpointed
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, Trainer, TrainingArguments

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen2.5-7B")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-7B", dtype="bfloat16").cuda()
model.gradient_checkpointing_enable()
model.train()
optimizer = torch.optim.AdamW(model.parameters())
for texts in loader:
    batch = tokenizer(texts, truncation=True, max_length=65536, padding=True, return_tensors="pt")
    with torch.autograd.graph.save_on_cpu(pin_memory=True):
        loss = model(**batch.to("cuda"), labels=batch["input_ids"]).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
