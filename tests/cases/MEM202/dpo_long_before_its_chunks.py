# target: trl=0.19
from trl import DPOConfig, DPOTrainer

trainer = DPOTrainer("Qwen/Qwen3-4B", args=DPOConfig("out"), train_dataset=pairs)  # expect: MEM202
trainer.train()
