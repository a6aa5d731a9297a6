import torch
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen2.5-1.5B")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-1.5B", dtype=torch.bfloat16).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
for batch in DataLoader(rows, batch_size=8):
    asked = tokenizer(batch["text"], padding="max_length", max_length=256, return_tensors="pt").to("cuda")
    drawn = model.generate(**asked, max_new_tokens=64)
    model(drawn, labels=drawn).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
