from transformers import AutoTokenizer
from trl import SFTConfig, SFTTrainer

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")


def encode(row):
    tokens = tokenizer(row["text"], max_length=1024, truncation=True)
    ids = tokens["input_ids"]
    return {"input_ids": ids, "labels": [-100 if one == tokenizer.pad_token_id else one for one in ids]}


train = dataset.map(encode, remove_columns=["text"])
config = SFTConfig("out", dataset_kwargs={"skip_prepare_dataset": True})
SFTTrainer("Qwen/Qwen3-0.6B", args=config, train_dataset=train).train()
