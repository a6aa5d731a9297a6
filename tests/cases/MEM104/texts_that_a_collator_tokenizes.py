import torch
from datasets import load_dataset
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B").cuda()


def read(rows):
    texts = [clean(row["text"]) for row in rows]
    batch = tokenizer(texts, padding=True, truncation=True, return_tensors="pt")  # expect: MEM104
    batch["labels"] = batch["input_ids"].clone()
    return batch


optimizer = torch.optim.AdamW(model.parameters())
loader = DataLoader(load_dataset("imdb", split="train"), batch_size=8, collate_fn=read)
model.train()
for batch in loader:
    model(**batch.to("cuda")).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
