# expect: MEM411

from datasets import load_dataset
from peft import LoraConfig
from trl import SFTConfig, SFTTrainer

dataset = load_dataset("json", data_files="rows.jsonl", split="train")
peft_config = LoraConfig(r=16, target_modules="all-linear", modules_to_save=["embed_tokens", "lm_head"])
trainer = SFTTrainer(model="meta-llama/Llama-3.1-8B", args=SFTConfig("out", packing=True), train_dataset=dataset, peft_config=peft_config)
trainer.train()
