# about: what `datasets` renamed or dropped, and options that an open signature passes on.
import datasets
from datasets import load_dataset
from transformers import Trainer

rows = load_dataset("imdb", split="train", use_auth_token=True)  # expect: MEM901
more = datasets.load_dataset("imdb", ignore_verifications=True)  # expect: MEM901
metric = datasets.load_metric("accuracy")  # expect: MEM901
trainer = Trainer(model, args, train_dataset=rows)
