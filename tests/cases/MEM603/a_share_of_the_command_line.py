import argparse
from trl import GRPOConfig, GRPOTrainer

parser = argparse.ArgumentParser()
parser.add_argument("--vllm_share", type=float, default=0.8)  # expect: MEM603
flags = parser.parse_args()
args = GRPOConfig("out", use_vllm=True, vllm_gpu_memory_utilization=flags.vllm_share)
GRPOTrainer("Qwen/Qwen3-1.7B", reward_funcs=reward, args=args, train_dataset=dataset).train()
