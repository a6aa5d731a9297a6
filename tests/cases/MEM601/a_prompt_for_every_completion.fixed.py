from trl import GRPOConfig
from memlint_runtime.trl import GRPOTrainer

args = GRPOConfig("out", num_generations=8, max_completion_length=256)
trainer = GRPOTrainer(
    model="Qwen/Qwen3-4B",
    reward_funcs=reward,
    args=args,
    train_dataset=dataset,
)
trainer.train()
