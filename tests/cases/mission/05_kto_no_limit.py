# expect: MEM101 unsafe

from datasets import load_dataset
from trl.experimental.kto import KTOConfig, KTOTrainer

dataset = load_dataset("json", data_files="rows.jsonl", split="train")
args = KTOConfig("out", max_length=None)
trainer = KTOTrainer(model="Qwen/Qwen3-8B", args=args, train_dataset=dataset)
trainer.train()
