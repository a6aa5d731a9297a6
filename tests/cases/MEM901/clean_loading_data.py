# about: keywords that go to the builder of a data set, and an old release of `datasets`.
# target: newest
from datasets import Dataset, load_dataset
from transformers import Trainer

rows = load_dataset("json", data_files="a.jsonl", field="data", split="train", lines=True)
more = load_dataset("some/script", "name", languages=["de"], trust_remote_code=True)
made = Dataset.from_list([{"text": "a"}]).map(lambda row: row, batched=True).shuffle(seed=1)
trainer = Trainer(model, args, train_dataset=rows)
