# expect: MEM101 unsafe

from datasets import load_dataset
from trl import RewardConfig, RewardTrainer

dataset = load_dataset("json", data_files="rows.jsonl", split="train")
args = RewardConfig("out", max_length=None)
trainer = RewardTrainer(model="Qwen/Qwen3-8B", args=args, train_dataset=dataset)
trainer.train()
