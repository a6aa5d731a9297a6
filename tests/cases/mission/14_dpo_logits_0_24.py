# target: trl=0.24
# expect: MEM202 advice

from datasets import load_dataset
from trl import DPOConfig, DPOTrainer

dataset = load_dataset("json", data_files="rows.jsonl", split="train")
args = DPOConfig("out")
trainer = DPOTrainer(model="Qwen/Qwen3-8B", args=args, train_dataset=dataset)
trainer.train()
