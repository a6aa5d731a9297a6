# about: an older release of `datasets` has them.
# target: datasets=2.20
from datasets import load_dataset, load_metric
from transformers import Trainer

rows = load_dataset("imdb", split="train", use_auth_token=True)
metric = load_metric("accuracy")
trainer = Trainer(model, args, train_dataset=rows)
