# target: trl=1.0
# expect: MEM901

from datasets import load_dataset
from trl import KTOConfig, KTOTrainer

dataset = load_dataset("json", data_files="rows.jsonl", split="train")
args = KTOConfig("out", activation_offloading=True)
trainer = KTOTrainer(model="Qwen/Qwen3-8B", args=args, train_dataset=dataset)
trainer.train()
