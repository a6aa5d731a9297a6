# target: trl=0.25
from trl import GRPOTrainer
from trl.rewards import accuracy_reward

trainer = GRPOTrainer(  # expect: MEM203
    model="Qwen/Qwen2.5-1.5B",
    reward_funcs=accuracy_reward,
    train_dataset=rows,
)
trainer.train()
