from transformers import (
    AutoModelForSeq2SeqLM, DataCollatorForSeq2Seq, Seq2SeqTrainer, Seq2SeqTrainingArguments
)

tokens = tokenizer(rows, max_length=4096, truncation=True)
model = AutoModelForSeq2SeqLM.from_pretrained("google/long-t5-tglobal-base")
args = Seq2SeqTrainingArguments("out")
trainer = Seq2SeqTrainer(model, args, data_collator=DataCollatorForSeq2Seq(tokenizer, model))
args = Seq2SeqTrainingArguments(
    "out", per_device_train_batch_size=8, train_sampling_strategy="group_by_length"
)
trainer = Seq2SeqTrainer(model, args, data_collator=DataCollatorForSeq2Seq(tokenizer, model))
