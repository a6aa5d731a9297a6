# expect: MEM101 unsafe

from datasets import load_dataset
from trl import SFTConfig, SFTTrainer

dataset = load_dataset("json", data_files="rows.jsonl", split="train")
args = SFTConfig("out", packing=False, max_length=None)
trainer = SFTTrainer(model="Qwen/Qwen3-8B", args=args, train_dataset=dataset)
trainer.train()
