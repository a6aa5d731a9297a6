from trl import GRPOConfig, GRPOTrainer

args = GRPOConfig("out", use_vllm=True, vllm_mode="colocate", max_prompt_length=256, vllm_enable_sleep_mode=True)
GRPOTrainer("Qwen/Qwen3-1.7B", reward_funcs=reward, args=args, train_dataset=dataset).train()
