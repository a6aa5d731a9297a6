from trl import RLOOConfig, RLOOTrainer

args = RLOOConfig(
    "out",
    use_vllm=True,
    vllm_enable_sleep_mode=True,
)
RLOOTrainer("Qwen/Qwen3-1.7B", reward_funcs=reward, args=args, train_dataset=dataset).train()
