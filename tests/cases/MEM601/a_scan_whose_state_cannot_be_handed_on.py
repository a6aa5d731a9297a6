# about: Mamba 1 begins each row anew: the runtime refuses it, and advice is all there is.
from trl import GRPOConfig, GRPOTrainer

trainer = GRPOTrainer(  # expect: MEM601
    "ai21labs/Jamba-v0.1",
    reward_funcs=reward,
    args=GRPOConfig("out"),
    train_dataset=dataset,
)
trainer.train()
