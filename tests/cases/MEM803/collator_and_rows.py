from transformers import DataCollatorForSeq2Seq, Trainer, TrainingArguments

args = TrainingArguments(
    "out",
    per_device_train_batch_size=6,  # expect: MEM803
)
collator = DataCollatorForSeq2Seq(tokenizer, model=model)  # expect: MEM803
Trainer(model, args, train_dataset=rows, data_collator=collator).train()
