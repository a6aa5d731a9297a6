# about: vLLM refuses to sleep over expandable segments: advice.
import os

os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"
from trl import GRPOConfig, GRPOTrainer

args = GRPOConfig("out", use_vllm=True, vllm_mode="colocate")  # expect: MEM604
GRPOTrainer("Qwen/Qwen3-1.7B", reward_funcs=reward, args=args, train_dataset=dataset).train()
