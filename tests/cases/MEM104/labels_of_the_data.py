from transformers import AutoModelForCausalLM, DataCollatorForSeq2Seq, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
args = TrainingArguments("out", per_device_train_batch_size=4)
collator = DataCollatorForSeq2Seq(tokenizer)  # expect: MEM104
trainer = Trainer(model, args, train_dataset=dataset, data_collator=collator)
trainer.train()
