import torch
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen2.5-1.5B")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-1.5B", dtype=torch.bfloat16).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
model.train()
for batch in DataLoader(rows, batch_size=8):
    given = tokenizer(
        batch["text"],
        padding="max_length",  # expect: MEM102
        max_length=2048,
        truncation=True,
        return_tensors="pt",
    ).to("cuda")
    model(**given, labels=given["input_ids"]).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
