# about: An encoder has none; BART drops it where labels are given.
from transformers import AutoModelForMaskedLM, AutoModelForSeq2SeqLM

encoder = AutoModelForMaskedLM.from_pretrained("answerdotai/ModernBERT-base")
bart = AutoModelForSeq2SeqLM.from_pretrained("facebook/bart-base")
for batch in loader:
    (encoder(**batch).loss + bart(**batch).loss).backward()
