# expect: MEM602

from datasets import load_dataset
from trl import GRPOConfig, GRPOTrainer

dataset = load_dataset("json", data_files="rows.jsonl", split="train")
args = GRPOConfig("out", num_generations=8, deepspeed="ds_config.json")
trainer = GRPOTrainer(model="Qwen/Qwen3-8B", reward_funcs=reward, args=args, train_dataset=dataset)
trainer.train()
