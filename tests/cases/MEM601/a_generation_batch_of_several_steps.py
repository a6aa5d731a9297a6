# about: A step sees part of what is generated together: whole groups there, rows of all prompts in TRL.
from trl import GRPOConfig, GRPOTrainer

args = GRPOConfig("out", per_device_train_batch_size=8, generation_batch_size=64)
GRPOTrainer("Qwen/Qwen3-4B", reward_funcs=reward, args=args, train_dataset=dataset).train()  # expect: MEM601
