"""A causal language model on transformers' own Trainer, driven from a command line."""

import argparse

from datasets import load_dataset
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    DataCollatorForLanguageModeling,
    Trainer,
    TrainingArguments,
)


def parse_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="openai-community/gpt2-xl")
    parser.add_argument("--max-length", type=int, default=1024)
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--lr", type=float, default=5e-5)
    return parser.parse_args()


def main():
    cli = parse_args()
    tokenizer = AutoTokenizer.from_pretrained(cli.model)
    tokenizer.pad_token = tokenizer.eos_token

    def tokenize(batch):
        return tokenizer(batch["text"], padding="max_length", truncation=True, max_length=cli.max_length)

    data = load_dataset("wikitext", "wikitext-103-raw-v1")
    data = data.map(tokenize, batched=True, remove_columns=["text"])

    model = AutoModelForCausalLM.from_pretrained(cli.model)
    args = TrainingArguments(
        output_dir="out",
        per_device_train_batch_size=cli.batch_size,
        learning_rate=cli.lr,
        eval_strategy="epoch",
        num_train_epochs=1
    )
    trainer = Trainer(
        model=model,
        args=args,
        train_dataset=data["train"],
        eval_dataset=data["validation"],
        data_collator=DataCollatorForLanguageModeling(tokenizer, mlm=False),
    )
    trainer.train()


if __name__ == "__main__":
    main()
