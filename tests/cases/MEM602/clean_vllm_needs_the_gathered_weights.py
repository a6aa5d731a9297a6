# about: vLLM needs the gathered weights.
from trl import GRPOConfig, GRPOTrainer

args = GRPOConfig("out", deepspeed="ds_zero3.json", use_vllm=True)
GRPOTrainer("Qwen/Qwen3-8B", reward_funcs=reward, args=args, train_dataset=dataset).train()
