from trl import DPOConfig, DPOTrainer
from memlint_runtime import limit_prompts


def configured(limit):
    size = 512
    first = DPOConfig("first")
    second = DPOConfig("second", max_prompt_length=limit)
    return first, second


def train(rows):
    first, second = configured(64)
    limit_prompts(DPOTrainer, 512)("a", args=first, train_dataset=rows)
    DPOTrainer("b", args=second, train_dataset=rows)
