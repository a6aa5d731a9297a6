import torch
from transformers import AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")


def collate(rows):
    return tokenizer.pad(rows, padding="max_length", max_length=512, return_tensors="pt")  # expect: MEM102


loader = torch.utils.data.DataLoader(dataset, batch_size=8, collate_fn=collate)
for batch in loader:
    model(**batch).loss.backward()
