# target: trl=0.25
from trl import GRPOTrainer
from trl.rewards import accuracy_reward

CHECKPOINT = "Qwen/Qwen2.5-1.5B"  # expect: MEM401
trainer = GRPOTrainer(
    model=CHECKPOINT,
    reward_funcs=accuracy_reward,
    train_dataset=rows,
)
trainer.train()
