# target: trl=1.16
from trl import GRPOConfig, GRPOTrainer

args = GRPOConfig("out", use_vllm=True, vllm_server_host=host, vllm_server_port=8000)
GRPOTrainer("Qwen/Qwen3-1.7B", reward_funcs=reward, args=args, train_dataset=dataset).train()
