# about: A limit that another function knows, as a number or as a parameter of its own.
from trl import DPOConfig, DPOTrainer


def configured(limit):
    size = 512
    first = DPOConfig("first", max_prompt_length=size)  # expect: MEM901
    second = DPOConfig("second", max_prompt_length=limit)  # expect: MEM901
    return first, second


def train(rows):
    first, second = configured(64)
    DPOTrainer("a", args=first, train_dataset=rows)
    DPOTrainer("b", args=second, train_dataset=rows)
