# about: neither a branch under a constant that is False nor one under a default of False runs
from datasets import load_dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, DataCollatorForSeq2Seq, Trainer

PAD_ALL = False
tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
raw = load_dataset("imdb", split="train")


def pad(row):
    return tokenizer(row["text"], truncation=True, padding="max_length", max_length=512)


def prepare(rows, fixed=False):
    if fixed:
        rows = rows.map(lambda row: tokenizer(row["text"], padding="max_length", max_length=512))
    return rows


rows = prepare(raw)
if PAD_ALL:
    rows = rows.map(pad)
Trainer(model, args, train_dataset=rows, data_collator=DataCollatorForSeq2Seq(tokenizer)).train()
