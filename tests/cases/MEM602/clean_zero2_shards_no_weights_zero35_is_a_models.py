# about: ZeRO-2 shards no weights; zero3.5 is a model's name.
from trl import GRPOConfig, GRPOTrainer

args = GRPOConfig("out", deepspeed="configs/zero2_qwen3.json")
GRPOTrainer("Qwen/Qwen3-8B", reward_funcs=reward, args=args, train_dataset=dataset).train()
