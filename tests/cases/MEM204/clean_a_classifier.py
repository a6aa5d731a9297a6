# about: A classifier.
import torch
from transformers import AutoModelForSequenceClassification

model = AutoModelForSequenceClassification.from_pretrained("bert-base-uncased")
for batch in loader:
    logprobs = torch.log_softmax(model(**batch).logits, dim=-1)
    logprobs.gather(-1, batch["labels"].unsqueeze(-1)).mean().neg().backward()
