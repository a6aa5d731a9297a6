from trl import RLOOConfig, RLOOTrainer

args = RLOOConfig(
    "out",
    use_vllm=True,
    vllm_enable_sleep_mode=False,  # expect: MEM604
)
RLOOTrainer("Qwen/Qwen3-1.7B", reward_funcs=reward, args=args, train_dataset=dataset).train()
