# data: document,summary
import torch
from datasets import load_dataset
from torch.utils.data import DataLoader
from transformers import AutoTokenizer, T5ForConditionalGeneration

tokenizer = AutoTokenizer.from_pretrained("t5-small")
model = T5ForConditionalGeneration.from_pretrained("t5-small").cuda()


def collate(rows):
    batch = tokenizer(
        ["summarize: " + row["document"] for row in rows],
        padding=True,
        truncation=True,
        max_length=128,
        return_tensors="pt",
    )
    labels = tokenizer([row["summary"] for row in rows], padding=True, return_tensors="pt").input_ids
    labels[labels == tokenizer.pad_token_id] = -100
    return batch.input_ids, batch.attention_mask, labels


loader = DataLoader(load_dataset("xsum", split="train"), batch_size=4, collate_fn=collate)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
model.eval()
for step, (ids, mask, labels) in enumerate(loader):
    outputs = model(input_ids=ids.cuda(), attention_mask=mask.cuda(), labels=labels.cuda())
    outputs.loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(f"{step} {outputs.loss.item():.7f}")
    if step >= 3:
        break
