# target: trl=0.19
# target: transformers=4.50
# expect: MEM105

from datasets import load_dataset
from trl import SFTConfig, SFTTrainer

dataset = load_dataset("json", data_files="rows.jsonl", split="train")
args = SFTConfig("out", padding_free=True, model_init_kwargs={"attn_implementation": "sdpa"})
trainer = SFTTrainer(model="Qwen/Qwen3-8B", args=args, train_dataset=dataset)
trainer.train()
