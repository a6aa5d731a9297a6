# about: Unsloth shares prompts by itself.
from unsloth import FastLanguageModel
from trl import GRPOConfig, GRPOTrainer

model, tokenizer = FastLanguageModel.from_pretrained("unsloth/Qwen3-4B")
GRPOTrainer(model, reward_funcs=reward, args=GRPOConfig("out")).train()
