# target: trl=1.0
# expect: MEM201 advice

from datasets import load_dataset
from trl import SFTConfig, SFTTrainer

dataset = load_dataset("json", data_files="rows.jsonl", split="train")
args = SFTConfig("out", packing=True)
trainer = SFTTrainer(model="Qwen/Qwen3-8B", args=args, train_dataset=dataset)
trainer.train()
