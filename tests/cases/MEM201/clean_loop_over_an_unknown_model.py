# about: Nobody knows what the model is.
from transformers import get_scheduler

from mine import build

model = build()
for batch in loader:
    model(**batch).loss.backward()
