# about: A classifier has a handful of logits.
import torch
from transformers import AutoModelForSequenceClassification

model = AutoModelForSequenceClassification.from_pretrained("bert-base-uncased")
for batch in loader:
    logits = model(batch["input_ids"]).logits
    (torch.nn.functional.cross_entropy(logits, batch["labels"]) + model(**batch).loss).backward()
