from datasets import load_dataset
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    DataCollatorForSeq2Seq,
    Trainer,
    TrainingArguments,
)

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
data = load_dataset("json", data_files=path) if path.endswith(".json") else load_dataset(path)


def encode(row):
    return tokenizer(row["text"], truncation=True, max_length=256)


if held_out:
    rows = data["train"].train_test_split(test_size=held_out)["train"].shuffle().map(encode)
else:
    rows = data["train"].shuffle().map(encode)
args = TrainingArguments("out", per_device_train_batch_size=4)
Trainer(
    model,
    args,
    train_dataset=rows,
    data_collator=DataCollatorForSeq2Seq(tokenizer, padding=True),  # expect: MEM104
).train()
