import torch
from transformers import AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
loader = torch.utils.data.DataLoader(
    dataset,
    collate_fn=lambda rows: tokenizer.pad(rows, padding="longest", max_length=512),
)
for batch in loader:
    model(**batch).loss.backward()
