# target: trl=0.19
# target: trl=0.24
from trl import GRPOConfig, GRPOTrainer

args = GRPOConfig("out", use_vllm=True, vllm_mode="colocate", vllm_gpu_memory_utilization=0.7)  # expect: MEM603
GRPOTrainer("Qwen/Qwen3-1.7B", reward_funcs=reward, args=args, train_dataset=dataset).train()
