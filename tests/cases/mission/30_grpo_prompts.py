# expect: MEM601 safe

from datasets import load_dataset
from trl import GRPOConfig, GRPOTrainer

dataset = load_dataset("json", data_files="rows.jsonl", split="train")
args = GRPOConfig("out", per_device_train_batch_size=16, num_generations=16, max_completion_length=256)
trainer = GRPOTrainer(model="Qwen/Qwen2.5-7B-Instruct", reward_funcs=reward, args=args, train_dataset=dataset)
trainer.train()
