# about: The trainer truncates what it is given.
from transformers import AutoTokenizer
from trl import SFTConfig, SFTTrainer

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")


def tokenize(row):
    return tokenizer(row["text"])


SFTTrainer("Qwen/Qwen3-0.6B", args=SFTConfig("out"), train_dataset=data.map(tokenize)).train()
