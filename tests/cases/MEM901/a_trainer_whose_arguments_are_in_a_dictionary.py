from trl import DPOConfig, DPOTrainer

args = DPOConfig("out", max_prompt_length=512)  # expect: MEM901
parts = {
    "model": model,
    "args": args,
    "train_dataset": data["train"],
    "eval_dataset": data["test"],
    "processing_class": tokenizer,
}
trainer = DPOTrainer(**parts)
