from transformers import TrainingArguments
from trl import SFTTrainer

args = TrainingArguments("out", per_device_train_batch_size=4)  # expect: MEM103
SFTTrainer("Qwen/Qwen3-0.6B", args=args, train_dataset=dataset).train()
