# expect: MEM601 safe

from datasets import load_dataset
from trl import RLOOConfig, RLOOTrainer

dataset = load_dataset("json", data_files="rows.jsonl", split="train")
args = RLOOConfig("out", per_device_train_batch_size=8, num_generations=8)
trainer = RLOOTrainer(model="Qwen/Qwen3-8B", reward_funcs=reward, args=args, train_dataset=dataset)
trainer.train()
