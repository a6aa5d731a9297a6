# about: Loops whose loaders cannot get a collator that pads: advice.
from datasets import load_dataset
from torch.utils.data import DataLoader
from transformers import AutoModelForSequenceClassification, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("google-bert/bert-base-cased")
model = AutoModelForSequenceClassification.from_pretrained("google-bert/bert-base-cased").cuda()


def encode(rows):
    return tokenizer(rows["text"], padding="max_length", truncation=True)  # expect: MEM102


# A collator would try to make tensors of the texts, which are still among the columns.
reviews = load_dataset("yelp_review_full", split="train").map(encode, batched=True)
for batch in DataLoader(reviews, batch_size=8):
    model(input_ids=batch["input_ids"].cuda(), labels=batch["label"].cuda()).loss.backward()
