import torch
from datasets import load_dataset
from torch.utils.data import DataLoader
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, default_data_collator

model = AutoModelForSeq2SeqLM.from_pretrained("google/flan-t5-large").cuda()
tokenizer = AutoTokenizer.from_pretrained("google/flan-t5-large")


def prepare(rows):
    inputs = tokenizer(
        rows["text"],
        padding="max_length",
        max_length=512,
        truncation=True,
        return_tensors="pt",
    )
    labels = tokenizer(rows["title"], padding="max_length", max_length=16, return_tensors="pt")
    labels = labels["input_ids"]
    labels[labels == tokenizer.pad_token_id] = -100
    inputs["labels"] = labels
    return inputs


rows = load_dataset("ag_news", split="train")
rows = rows.map(prepare, batched=True, remove_columns=rows.column_names)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
model.train()
for batch in DataLoader(rows, batch_size=8, collate_fn=default_data_collator):
    batch = {name: part.cuda() for name, part in batch.items()}
    kept = batch["attention_mask"].bool().any(dim=0)
    cut = {name: batch[name][:, kept] for name in ("input_ids", "attention_mask") if name in batch}
    batch.update(cut)
    loss = model(**batch).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
