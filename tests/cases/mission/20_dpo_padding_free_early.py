# target: trl=0.12
# expect: MEM901

from datasets import load_dataset
from trl import DPOConfig, DPOTrainer

dataset = load_dataset("json", data_files="rows.jsonl", split="train")
args = DPOConfig("out", padding_free=True)
trainer = DPOTrainer(model="Qwen/Qwen3-8B", args=args, train_dataset=dataset)
trainer.train()
