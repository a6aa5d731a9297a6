# data: messages
from datasets import load_dataset
from transformers import TrainingArguments
from trl import SFTTrainer

args = TrainingArguments(
    output_dir="out",
    per_device_train_batch_size=2,
    per_device_eval_batch_size=2,
    max_steps=4,
    eval_strategy="steps",
    eval_steps=2,
    logging_steps=2,
    weight_decay=0.01,
    report_to=[],
)
args.warmup_steps = 2
rows = load_dataset("HuggingFaceH4/no_robots", split="train")
trainer = SFTTrainer("Qwen/Qwen2.5-0.5B", args, train_dataset=rows, eval_dataset=rows)
trainer.train()
print([entry.get("loss", entry.get("eval_loss")) for entry in trainer.state.log_history])
