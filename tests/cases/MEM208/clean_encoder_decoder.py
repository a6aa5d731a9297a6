# about: Without labels it has no decoder inputs.
from transformers import AutoModelForSeq2SeqLM

model = AutoModelForSeq2SeqLM.from_pretrained("google/flan-t5-small")
for batch in loader:
    logits = model(batch["input_ids"], labels=batch["labels"]).logits
    loss = my_loss(logits, batch["labels"])
    loss.backward()
