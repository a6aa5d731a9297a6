# about: Nothing says ZeRO-3.
from trl import GRPOConfig, GRPOTrainer

args = GRPOConfig("out", deepspeed=None, ds3_gather_for_generation=True)
GRPOTrainer("Qwen/Qwen3-8B", reward_funcs=reward, args=args, train_dataset=dataset).train()
