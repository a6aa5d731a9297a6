# about: A release whose trainer takes Liger's loss: its option is set, where nobody has chosen.
# target: trl=0.19
from trl import GRPOConfig, GRPOTrainer

args = GRPOConfig("out", per_device_train_batch_size=8)
trainer = GRPOTrainer("Qwen/Qwen3-4B", reward_funcs=score, args=args, train_dataset=prompts)  # expect: MEM203
trainer.train()
