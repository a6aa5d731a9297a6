import torch
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen2.5-1.5B")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-1.5B", dtype=torch.bfloat16).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
for batch in DataLoader(rows, batch_size=8):
    if one_shape:
        given = tokenizer(batch["text"], padding="max_length", max_length=256, return_tensors="pt")
    else:
        given = tokenizer(batch["text"], padding=True, return_tensors="pt")
    model(**given.to("cuda"), labels=given["input_ids"].to("cuda")).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
