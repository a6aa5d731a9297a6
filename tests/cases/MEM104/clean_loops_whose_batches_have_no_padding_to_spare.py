# about: Rows are sorted by length, alone, of one length, or make a sentence's class.
import torch
from datasets import load_dataset
from torch.utils.data import DataLoader
from transformers import (
    AutoModelForCausalLM, AutoModelForSequenceClassification, AutoTokenizer, DataCollatorForSeq2Seq
)

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")


def prepare(row):
    return tokenizer(row["text"], truncation=True, max_length=2048)


def blocks(rows):
    joined = sum(rows["input_ids"], [])
    return {"input_ids": [joined[at : at + 512] for at in range(0, len(joined), 512)]}


def train(model, loader):
    optimizer = torch.optim.AdamW(model.parameters())
    model.train()
    for batch in loader:
        model(**batch.to("cuda")).loss.backward()
        optimizer.step()
        optimizer.zero_grad()


rows = load_dataset("imdb", split="train").map(prepare, remove_columns=["text", "label"])
collator = DataCollatorForSeq2Seq(tokenizer)
decoder = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B").cuda()
train(decoder, DataLoader(rows, batch_sampler=by_length(rows), collate_fn=collator))
train(decoder, DataLoader(rows, batch_size=1, collate_fn=collator))
train(decoder, DataLoader(rows.map(blocks, batched=True), batch_size=8, collate_fn=collator))
