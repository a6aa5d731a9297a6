# expect: MEM407

from datasets import load_dataset
from peft import LoraConfig
from trl import SFTConfig, SFTTrainer

dataset = load_dataset("json", data_files="rows.jsonl", split="train")
peft_config = LoraConfig(r=16)
trainer = SFTTrainer(model="meta-llama/Llama-3.1-70B", args=SFTConfig("out", packing=True), train_dataset=dataset, peft_config=peft_config)
trainer.train()
