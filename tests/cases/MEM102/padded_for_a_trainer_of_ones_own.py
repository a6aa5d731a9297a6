# about: Rows padded to a fixed length, for a classifier, a decoder, a translator.
from datasets import load_dataset
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    DataCollatorForSeq2Seq,
    Trainer,
    TrainingArguments,
    default_data_collator,
)

tokenizer = AutoTokenizer.from_pretrained("bert-base-uncased")
model = AutoModelForSequenceClassification.from_pretrained("bert-base-uncased")
rows = load_dataset("imdb", split="train")


def tokenize(batch):
    return tokenizer(batch["text"], padding="max_length", truncation=True, max_length=512)  # expect: MEM102


rows = rows.map(tokenize, batched=True)
args = TrainingArguments("out", per_device_train_batch_size=8)
class Own(Trainer):
    def log_nothing(self):
        return None


Own(model, args, train_dataset=rows, data_collator=default_data_collator).train()
