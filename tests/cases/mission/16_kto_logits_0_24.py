# target: trl=0.24
# expect: MEM202 advice

from datasets import load_dataset
from trl import KTOConfig, KTOTrainer

dataset = load_dataset("json", data_files="rows.jsonl", split="train")
args = KTOConfig("out")
trainer = KTOTrainer(model="Qwen/Qwen3-8B", args=args, train_dataset=dataset)
trainer.train()
