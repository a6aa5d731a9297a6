# data: prompt
# stand-in: transformers generates, not vLLM
from datasets import load_dataset
from trl import GRPOConfig, GRPOTrainer


def reward(completions, **kwargs):
    return [completion.count("the") for completion in completions]


args = GRPOConfig(
    output_dir="grpo-vllm",
    use_vllm=True,
    vllm_mode="colocate",
    vllm_gpu_memory_utilization=0.3,
    per_device_train_batch_size=4,
    num_generations=4,
    max_completion_length=8,
    bf16=False,
    learning_rate=1e-3,
    max_steps=3,
    logging_steps=1,
)
trainer = GRPOTrainer(
    "Qwen/Qwen3-1.7B",
    reward_funcs=reward,
    args=args,
    train_dataset=load_dataset("trl-lib/tldr", split="train"),
)
trainer.train()
print([entry["loss"] for entry in trainer.state.log_history if "loss" in entry])
