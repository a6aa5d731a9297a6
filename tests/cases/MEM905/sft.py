from transformers import TrainingArguments
from trl import SFTTrainer

args = TrainingArguments(  # expect: MEM905
    output_dir="out",
    per_device_train_batch_size=1,
    learning_rate=2e-4,
    bf16=True,
)
trainer = SFTTrainer(model, args=args, train_dataset=dataset)
