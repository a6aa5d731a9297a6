# about: GRPO evaluates whole groups: its batch is a multiple of their size.
# target: trl=0.19
from trl import GRPOConfig, GRPOTrainer

args = GRPOConfig(
    "out",
    per_device_train_batch_size=2,
    per_device_eval_batch_size=16,
    num_generations=2,
    eval_strategy="steps",
)
GRPOTrainer("Qwen/Qwen3-4B", reward, args=args, train_dataset=rows, eval_dataset=held_out).train()
