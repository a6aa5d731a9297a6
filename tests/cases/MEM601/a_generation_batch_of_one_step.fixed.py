from trl import GRPOConfig
from memlint_runtime.trl import GRPOTrainer

args = GRPOConfig(
    "out", per_device_train_batch_size=8, gradient_accumulation_steps=8, generation_batch_size=64
)
GRPOTrainer("Qwen/Qwen3-4B", reward_funcs=reward, args=args, train_dataset=dataset).train()
