import torch
from datasets import load_dataset
from torch.utils.data import DataLoader
from transformers import AutoModelForSequenceClassification, AutoTokenizer, DataCollatorWithPadding

tokenizer = AutoTokenizer.from_pretrained("roberta-large")
model = AutoModelForSequenceClassification.from_pretrained("roberta-large").cuda()
rows = load_dataset("imdb", split="train").map(lambda row: tokenizer(row["text"], truncation=True))
loader = DataLoader(rows, batch_size=8, collate_fn=DataCollatorWithPadding(tokenizer))
optimizer = torch.optim.AdamW(model.parameters())
model.train()
for batch in loader:
    model(**batch.to("cuda")).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
