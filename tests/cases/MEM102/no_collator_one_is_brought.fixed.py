from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    DataCollatorForSeq2Seq,
    Trainer,
    TrainingArguments,
)

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")


def tokenize(example):
    tokens = tokenizer(example["text"], truncation=True, max_length=256)
    return {**tokens, "labels": tokens["input_ids"]}


trainer = Trainer(
    model=AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B"),
    args=TrainingArguments("out"),
    train_dataset=dataset.map(tokenize),
    data_collator=DataCollatorForSeq2Seq(tokenizer),
)
