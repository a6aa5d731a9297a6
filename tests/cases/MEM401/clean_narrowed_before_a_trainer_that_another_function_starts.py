# about: Narrowed before a trainer that another function starts.
import torch
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-1.7B", dtype=torch.bfloat16)
model.float()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
for batch in warmup:
    with torch.autocast("cuda", torch.bfloat16):
        loss = model(**batch).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
model.bfloat16()
start(Trainer(model, TrainingArguments("out"), train_dataset=rows))
