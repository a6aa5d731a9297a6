# about: The script's own collator would get rows that it does not know.
from trl import SFTConfig, SFTTrainer

SFTTrainer("Qwen/Qwen3-0.6B", args=SFTConfig("out"), train_dataset=dataset, data_collator=collate)
