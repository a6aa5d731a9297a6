# target: trl=0.15, transformers=4.50
from transformers import AutoTokenizer
from trl import SFTConfig, SFTTrainer

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen2.5-0.5B")


def encode(row):
    return tokenizer(row["text"], padding="max_length", max_length=1024, truncation=True)  # expect: MEM102


train = dataset.map(encode, remove_columns=["text"])
trainer = SFTTrainer("Qwen/Qwen2.5-0.5B", args=SFTConfig("out"), train_dataset=train, processing_class=tokenizer)
trainer.train()
