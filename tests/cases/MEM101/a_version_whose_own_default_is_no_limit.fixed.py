from trl import DPOConfig, DPOTrainer

args = DPOConfig(output_dir="out", max_length=1024)  # max_length
DPOTrainer(model, args=args, train_dataset=dataset, processing_class=tokenizer).train()
