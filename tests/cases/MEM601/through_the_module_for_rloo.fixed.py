import trl
from memlint_runtime.trl import RLOOTrainer

trainer = RLOOTrainer("Qwen/Qwen3-4B", reward_funcs=reward, train_dataset=dataset)
trainer.train()
