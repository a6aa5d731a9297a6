"""A Trainer with a loss of its own, as it was written in 2023."""

import os

import torch
from datasets import load_dataset
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    DataCollatorForLanguageModeling,
    Trainer,
    TrainingArguments,
)
from transformers.utils import send_example_telemetry

send_example_telemetry("weighted", {})


class WeightedTrainer(Trainer):
    def compute_loss(self, model, inputs, return_outputs=False):
        labels = inputs.pop("labels")
        outputs = model(**inputs)
        losses = torch.nn.functional.cross_entropy(
            outputs.logits[:, :-1].transpose(1, 2), labels[:, 1:], reduction="none"
        )
        loss = losses.mean()
        return (loss, outputs) if return_outputs else loss


tokenizer = AutoTokenizer.from_pretrained(os.environ["MODEL"], use_fast=True)
model = AutoModelForCausalLM.from_pretrained(os.environ["MODEL"], torch_dtype=torch.float32)
dataset = load_dataset("json", data_files=os.environ["DATA"], split="train")
dataset = dataset.map(
    lambda rows: tokenizer.batch_encode_plus(rows["text"], truncation=True, max_length=32),
    batched=True,
    remove_columns=dataset.column_names,
)

trainer = WeightedTrainer(
    model=model,
    args=TrainingArguments(
        output_dir=os.environ["OUTPUT"],
        per_device_train_batch_size=2,
        gradient_accumulation_steps=2,
        evaluation_strategy="no",
        group_by_length=False,
        logging_dir=os.environ["OUTPUT"] + "/logs",
        save_safetensors=True,
        half_precision_backend="auto",
        max_steps=3,
        no_cuda=True,
        report_to="none",
    ),
    train_dataset=dataset,
    tokenizer=tokenizer,
    data_collator=DataCollatorForLanguageModeling(tokenizer, mlm=False),
)
trainer.train()
