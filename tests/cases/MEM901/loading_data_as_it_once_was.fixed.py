import datasets
from datasets import load_dataset
from transformers import Trainer

rows = load_dataset("imdb", split="train", token=True)
more = datasets.load_dataset("imdb", verification_mode="no_checks")
metric = datasets.load_metric("accuracy")
trainer = Trainer(model, args, train_dataset=rows)
