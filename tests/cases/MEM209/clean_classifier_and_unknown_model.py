import torch
from transformers import AutoModelForSequenceClassification

classifier = AutoModelForSequenceClassification.from_pretrained("bert-base-uncased")
for ids in loader:
    print(classifier(input_ids=ids).logits[:, -1])
    print(model(input_ids=ids).logits[:, -1])
