# about: T5 computes its loss by itself: nothing can be put in its place.
from transformers import AutoModelForSeq2SeqLM

model = AutoModelForSeq2SeqLM.from_pretrained("google-t5/t5-base")
for batch in loader:
    model(**batch).loss.backward()
