from trl import SFTTrainer, DataCollatorForCompletionOnlyLM  # expect: MEM901

collator = DataCollatorForCompletionOnlyLM("### Answer:", tokenizer=tokenizer)
trainer = SFTTrainer(model, train_dataset=dataset, data_collator=collator)
