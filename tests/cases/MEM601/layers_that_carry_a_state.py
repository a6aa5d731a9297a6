# about: Linear attention hands its state from the prompt to each completion.
from trl import GRPOConfig, GRPOTrainer

trainer = GRPOTrainer(  # expect: MEM601
    "Qwen/Qwen3-Next-80B-A3B-Instruct",
    reward_funcs=reward,
    args=GRPOConfig("out"),
    train_dataset=dataset,
)
trainer.train()
