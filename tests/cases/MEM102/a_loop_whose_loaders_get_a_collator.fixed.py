from datasets import load_dataset
from torch.optim import AdamW
from torch.utils.data import DataLoader
from transformers import AutoModelForSequenceClassification, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("google-bert/bert-base-cased")
model = AutoModelForSequenceClassification.from_pretrained("google-bert/bert-base-cased").cuda()
reviews = load_dataset("yelp_review_full")


def encode(rows):
    return tokenizer(rows["text"], padding="max_length", truncation=True)


reviews = reviews.map(encode, batched=True).remove_columns(["text"])
reviews = reviews.rename_column("label", "labels")
reviews.set_format("torch")
train_loader = DataLoader(reviews["train"].shuffle(), batch_size=8)
test_loader = DataLoader(reviews["test"], batch_size=8)
optimizer = AdamW(model.parameters(), lr=5e-5)
for batch in train_loader:
    kept = batch["attention_mask"].bool().any(dim=0)
    cut = {name: batch[name][:, kept] for name in ("input_ids", "attention_mask", "token_type_ids") if name in batch}
    batch.update(cut)
    model(**batch).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
