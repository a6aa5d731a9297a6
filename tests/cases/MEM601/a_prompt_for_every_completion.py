# about: A prompt for every completion.
from trl import GRPOConfig, GRPOTrainer

args = GRPOConfig("out", num_generations=8, max_completion_length=256)
trainer = GRPOTrainer(  # expect: MEM601
    model="Qwen/Qwen3-4B",
    reward_funcs=reward,
    args=args,
    train_dataset=dataset,
)
trainer.train()
