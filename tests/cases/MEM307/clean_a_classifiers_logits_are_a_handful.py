# about: A classifier's logits are a handful.
from transformers import AutoModelForSequenceClassification

model = AutoModelForSequenceClassification.from_pretrained("Qwen/Qwen3-0.6B")
for batch in loader:
    outputs = model(**batch)
    outputs.loss.backward()
