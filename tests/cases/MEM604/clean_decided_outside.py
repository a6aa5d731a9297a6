import argparse
from trl import GRPOConfig, GRPOTrainer

parser = argparse.ArgumentParser()
parser.add_argument("--mode")
flags = parser.parse_args()
args = GRPOConfig("out", use_vllm=True, vllm_mode=flags.mode)
GRPOTrainer("Qwen/Qwen3-1.7B", reward_funcs=reward, args=args, train_dataset=dataset).train()
