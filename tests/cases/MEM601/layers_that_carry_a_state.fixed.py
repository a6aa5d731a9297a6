from trl import GRPOConfig
from memlint_runtime.trl import GRPOTrainer

trainer = GRPOTrainer(
    "Qwen/Qwen3-Next-80B-A3B-Instruct",
    reward_funcs=reward,
    args=GRPOConfig("out"),
    train_dataset=dataset,
)
trainer.train()
