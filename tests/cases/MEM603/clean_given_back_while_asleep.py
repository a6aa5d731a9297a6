from trl import GRPOConfig, GRPOTrainer

args = GRPOConfig(
    "out", use_vllm=True, vllm_gpu_memory_utilization=0.9, vllm_enable_sleep_mode=True
)
GRPOTrainer("Qwen/Qwen3-1.7B", reward_funcs=reward, args=args, train_dataset=dataset).train()
