# about: The padded set is looked at and left; the trainer gets the texts.
from transformers import AutoTokenizer
from trl import SFTConfig, SFTTrainer

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")


def tokenize(row):
    return tokenizer(row["text"], padding="max_length", truncation=True, max_length=512)


tokenized = dataset.map(tokenize, batched=True)
print(len(tokenized), tokenized[0].keys())
tokenized
SFTTrainer("Qwen/Qwen3-0.6B", args=SFTConfig("out"), train_dataset=dataset).train()
