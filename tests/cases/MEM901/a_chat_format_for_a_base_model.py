import trl

model, tokenizer = trl.setup_chat_format(model, tokenizer)  # expect: MEM901
trainer = trl.SFTTrainer(model, train_dataset=dataset, processing_class=tokenizer)
