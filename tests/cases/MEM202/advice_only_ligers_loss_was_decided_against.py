# target: trl=0.19
from trl import DPOConfig, DPOTrainer

plain = DPOConfig("out", use_liger_loss=False)
trainer = DPOTrainer("Qwen/Qwen3-4B", args=plain, train_dataset=pairs)  # expect: MEM202
trainer.train()
