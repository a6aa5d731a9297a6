from trl import DPOConfig, DPOTrainer
from memlint_runtime import limit_prompts

args = DPOConfig("out")
parts = {
    "model": model,
    "args": args,
    "train_dataset": data["train"],
    "eval_dataset": data["test"],
    "processing_class": tokenizer,
}
trainer = limit_prompts(DPOTrainer, 512)(**parts)
