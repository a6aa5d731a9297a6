# about: Before TRL 0.17 vLLM takes a GPU that nothing trains on.
# target: trl=0.15
from trl import GRPOConfig, GRPOTrainer

args = GRPOConfig("out", use_vllm=True, vllm_gpu_memory_utilization=0.9)
GRPOTrainer("Qwen/Qwen3-1.7B", reward_funcs=reward, args=args, train_dataset=dataset).train()
