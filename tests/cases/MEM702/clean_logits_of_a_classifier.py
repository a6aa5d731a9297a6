import torch
from transformers import AutoModelForSequenceClassification

model = AutoModelForSequenceClassification.from_pretrained("bert-base-uncased").to("cuda")
model.eval()
found = []
with torch.no_grad():
    for batch in loader:
        found.append(model(**batch).logits)
