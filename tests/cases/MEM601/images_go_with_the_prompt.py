# about: Images are part of the prompt that a group shares; which models can is known by name.
from transformers import Qwen2_5_VLForConditionalGeneration
from trl import GRPOConfig, GRPOTrainer

model = Qwen2_5_VLForConditionalGeneration.from_pretrained("Qwen/Qwen2.5-VL-3B-Instruct")
GRPOTrainer(model, reward_funcs=reward, args=GRPOConfig("out")).train()  # expect: MEM601
