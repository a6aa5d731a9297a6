from transformers import AutoTokenizer
from trl import SFTConfig, SFTTrainer

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen2.5-0.5B")


def encode(row):
    return tokenizer(row["text"], max_length=1024, truncation=True)


train = dataset.map(encode, remove_columns=["text"])
trainer = SFTTrainer("Qwen/Qwen2.5-0.5B", args=SFTConfig("out"), train_dataset=train, processing_class=tokenizer)
trainer.train()
