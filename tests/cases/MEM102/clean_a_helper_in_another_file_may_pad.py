# about: what a function of another file does to rows is not seen, and nothing there can be edited
from datasets import load_dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, DataCollatorForSeq2Seq, Trainer

from .preparation import pad_to_max_length

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
raw = load_dataset("imdb", split="train")


def tokenize(row):
    return pad_to_max_length(tokenizer(row["text"], truncation=True, max_length=512))


rows = raw.map(tokenize)
Trainer(model, args, train_dataset=rows, data_collator=DataCollatorForSeq2Seq(tokenizer)).train()
