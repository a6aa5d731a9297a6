# target: trl=0.20
# expect: MEM601

from datasets import load_dataset
from trl import GRPOConfig, GRPOTrainer

dataset = load_dataset("json", data_files="rows.jsonl", split="train")
args = GRPOConfig("out", num_generations=16, max_prompt_length=4096, max_completion_length=256)
trainer = GRPOTrainer(model="Qwen/Qwen3-8B", reward_funcs=reward, args=args, train_dataset=dataset)
trainer.train()
