# about: The reward model's inputs, beside a trainer that tokenizes by itself.
from transformers import AutoTokenizer
from trl import GRPOConfig, GRPOTrainer

scorer_tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")


def reward(completions, **kwargs):
    return scorer(scorer_tokenizer(completions, padding="max_length", max_length=512))


GRPOTrainer("Qwen/Qwen3-0.6B", reward_funcs=reward, args=GRPOConfig("out")).train()
