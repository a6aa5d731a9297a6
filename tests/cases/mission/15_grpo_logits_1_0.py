# target: trl=1.0
# expect: MEM203 advice

from datasets import load_dataset
from trl import GRPOConfig, GRPOTrainer

dataset = load_dataset("json", data_files="rows.jsonl", split="train")
args = GRPOConfig("out")
trainer = GRPOTrainer(model="Qwen/Qwen3-8B", reward_funcs=reward, args=args, train_dataset=dataset)
trainer.train()
