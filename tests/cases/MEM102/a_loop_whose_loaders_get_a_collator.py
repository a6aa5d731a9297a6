# about: A loop over rows of one length: its loaders get a collator that pads.
from datasets import load_dataset
from torch.optim import AdamW
from torch.utils.data import DataLoader
from transformers import AutoModelForSequenceClassification, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("google-bert/bert-base-cased")
model = AutoModelForSequenceClassification.from_pretrained("google-bert/bert-base-cased").cuda()
reviews = load_dataset("yelp_review_full")


def encode(rows):
    return tokenizer(rows["text"], padding="max_length", truncation=True)  # expect: MEM102


reviews = reviews.map(encode, batched=True).remove_columns(["text"])
reviews = reviews.rename_column("label", "labels")
reviews.set_format("torch")
train_loader = DataLoader(reviews["train"].shuffle(), batch_size=8)
test_loader = DataLoader(reviews["test"], batch_size=8)
optimizer = AdamW(model.parameters(), lr=5e-5)
for batch in train_loader:
    model(**batch).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
