# expect: MEM601 unsafe

from datasets import load_dataset
from peft import LoraConfig
from trl import GRPOConfig, GRPOTrainer

dataset = load_dataset("json", data_files="rows.jsonl", split="train")
args = GRPOConfig("out", per_device_train_batch_size=8, num_generations=8)
trainer = GRPOTrainer(model="Qwen/Qwen3-8B", reward_funcs=reward, args=args, train_dataset=dataset, peft_config=LoraConfig(r=16, lora_dropout=0.05))
trainer.train()
