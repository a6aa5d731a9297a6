from transformers import TrainingArguments
from trl import SFTConfig, SFTTrainer

args = SFTConfig(
    output_dir="out",
    per_device_train_batch_size=1,
    learning_rate=2e-4,
    bf16=True,
)
trainer = SFTTrainer(model, args=args, train_dataset=dataset)
