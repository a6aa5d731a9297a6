# target: trl=0.20
# about: Liger's loss is an option of this release, and a package more.
from trl import GRPOConfig, GRPOTrainer

trainer = GRPOTrainer("Qwen/Qwen3-4B", reward, args=GRPOConfig("out"), train_dataset=rows)  # expect: MEM203
trainer.train()
