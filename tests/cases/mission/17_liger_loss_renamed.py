# target: trl=1.0
# expect: MEM901 safe

from datasets import load_dataset
from trl import DPOConfig, DPOTrainer

dataset = load_dataset("json", data_files="rows.jsonl", split="train")
args = DPOConfig("out", use_liger_loss=True)
trainer = DPOTrainer(model="Qwen/Qwen3-8B", args=args, train_dataset=dataset)
trainer.train()
