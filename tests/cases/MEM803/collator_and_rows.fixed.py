from transformers import DataCollatorForSeq2Seq, Trainer, TrainingArguments

args = TrainingArguments(
    "out",
    per_device_train_batch_size=4,
)
collator = DataCollatorForSeq2Seq(tokenizer, model=model, pad_to_multiple_of=8)
Trainer(model, args, train_dataset=rows, data_collator=collator).train()
