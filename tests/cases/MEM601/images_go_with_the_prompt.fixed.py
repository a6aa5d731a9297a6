from transformers import Qwen2_5_VLForConditionalGeneration
from trl import GRPOConfig
from memlint_runtime.trl import GRPOTrainer

model = Qwen2_5_VLForConditionalGeneration.from_pretrained("Qwen/Qwen2.5-VL-3B-Instruct")
GRPOTrainer(model, reward_funcs=reward, args=GRPOConfig("out")).train()
