# expect: MEM304 safe

from datasets import load_dataset
from trl import SFTConfig, SFTTrainer

dataset = load_dataset("json", data_files="rows.jsonl", split="train")
args = SFTConfig("out", packing=True, model_init_kwargs={"attn_implementation": "eager"})
trainer = SFTTrainer(model="Qwen/Qwen3-8B", args=args, train_dataset=dataset)
trainer.train()
