# before: RewardTrainer reads options that plain arguments lack
# data: preference
from datasets import load_dataset
from transformers import AutoModelForSequenceClassification, AutoTokenizer, TrainingArguments
from trl import RewardTrainer


def options():
    return TrainingArguments(
        "out", per_device_train_batch_size=2, max_steps=3, logging_steps=1, learning_rate=1e-4
    )


tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen2.5-0.5B")
model = AutoModelForSequenceClassification.from_pretrained("Qwen/Qwen2.5-0.5B", num_labels=1)
rows = load_dataset("argilla/dpo-mix-7k", split="train")
trainer = RewardTrainer(model, args=options(), train_dataset=rows, processing_class=tokenizer)
trainer.train()
print([entry["loss"] for entry in trainer.state.log_history if "loss" in entry])
