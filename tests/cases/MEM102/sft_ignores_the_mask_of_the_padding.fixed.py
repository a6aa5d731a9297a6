from transformers import AutoTokenizer
from trl import SFTConfig, SFTTrainer

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
train = dataset.map(
    lambda row: encode(row["text"]),
    remove_columns=["text"],
)


def encode(text):
    return tokenizer(text, max_length=1024, truncation=True)


SFTTrainer("Qwen/Qwen3-0.6B", args=SFTConfig("out"), train_dataset=train).train()
