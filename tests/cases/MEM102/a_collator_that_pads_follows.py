from transformers import (
    AutoModelForSeq2SeqLM,
    AutoTokenizer,
    DataCollatorForSeq2Seq,
    Trainer,
    TrainingArguments,
)

tokenizer = AutoTokenizer.from_pretrained("google-t5/t5-small")
model = AutoModelForSeq2SeqLM.from_pretrained("google-t5/t5-small")


def tokenize(batch):
    inputs = tokenizer(batch["text"], padding="max_length", truncation=True, max_length=512)  # expect: MEM102
    labels = tokenizer(batch["summary"], padding="max_length", truncation=True, max_length=64)  # expect: MEM102
    inputs["labels"] = labels["input_ids"]
    return inputs


train = dataset.map(tokenize, batched=True)
trainer = Trainer(
    model=model,
    args=TrainingArguments("out"),
    train_dataset=train,
    data_collator=DataCollatorForSeq2Seq(tokenizer, model=model),
)
