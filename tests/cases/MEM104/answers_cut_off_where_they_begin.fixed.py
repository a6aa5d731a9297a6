from functools import partial

from datasets import load_dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, DataCollatorForSeq2Seq, Trainer, TrainingArguments
from memlint_runtime import train_without_padding


def encode(row, tokenizer, most):
    whole = tokenizer(row["question"] + row["answer"], return_offsets_mapping=True)
    ids, places = whole["input_ids"], whole["offset_mapping"]
    first = next(i for i, (start, _) in enumerate(places) if start >= len(row["question"]))
    prompt, answer = ids[: min(first, most)], ids[first : first + 256]
    return {"input_ids": prompt + answer, "labels": [-100] * len(prompt) + answer}


tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
rows = load_dataset("gsm8k", "main", split="train")
rows = rows.map(partial(encode, tokenizer=tokenizer, most=1024), remove_columns=rows.column_names)
trainer = Trainer(
    model=AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B"),
    args=TrainingArguments("out", per_device_train_batch_size=4),
    train_dataset=rows,
    data_collator=DataCollatorForSeq2Seq(tokenizer),
)
train_without_padding(trainer)
trainer.train()
