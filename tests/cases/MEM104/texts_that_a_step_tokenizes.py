import torch
from datasets import load_dataset
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B").cuda()
optimizer = torch.optim.AdamW(model.parameters())
loader = DataLoader(load_dataset("imdb", split="train"), batch_size=8, shuffle=True)
model.train()
for batch in loader:
    given = tokenizer(  # expect: MEM104
        batch["text"], padding=True, truncation=True, max_length=1024, return_tensors="pt"
    ).to("cuda")
    model(**given, labels=given["input_ids"]).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
