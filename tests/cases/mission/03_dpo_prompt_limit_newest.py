# expect: MEM901

from datasets import load_dataset
from trl import DPOConfig, DPOTrainer

dataset = load_dataset("json", data_files="rows.jsonl", split="train")
args = DPOConfig("out", max_prompt_length=512)
trainer = DPOTrainer(model="Qwen/Qwen3-8B", args=args, train_dataset=dataset)
trainer.train()
