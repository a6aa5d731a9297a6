# about: A shared prefix is causal, Gemma's images are not: the runtime repeats these prompts.
from transformers import Gemma3ForConditionalGeneration
from trl import GRPOConfig, GRPOTrainer

model = Gemma3ForConditionalGeneration.from_pretrained("google/gemma-3-4b-it")
GRPOTrainer(model, reward_funcs=reward, args=GRPOConfig("out")).train()
