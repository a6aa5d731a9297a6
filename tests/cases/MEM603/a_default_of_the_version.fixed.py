from trl.experimental.online_dpo import OnlineDPOConfig, OnlineDPOTrainer

args = OnlineDPOConfig("out", use_vllm=True, vllm_gpu_memory_utilization=0.3)
OnlineDPOTrainer("Qwen/Qwen3-1.7B", args=args, train_dataset=dataset).train()
