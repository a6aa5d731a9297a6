# about: Whether vLLM is used is decided outside.
import argparse
from trl import GRPOConfig, GRPOTrainer

parser = argparse.ArgumentParser()
parser.add_argument("--vllm", action="store_true")
flags = parser.parse_args()
args = GRPOConfig("out", deepspeed="ds_zero3.json", use_vllm=bool(flags.vllm or other()))
GRPOTrainer("Qwen/Qwen3-8B", reward_funcs=reward, args=args, train_dataset=dataset).train()
