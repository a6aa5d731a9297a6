"""Learn answers only, as it was written in 2023: a collator looks for where the answer begins."""

import os

from datasets import load_dataset
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import DataCollatorForCompletionOnlyLM, SFTConfig, SFTTrainer

dataset = load_dataset("json", data_files=os.environ["DATA"], split="train")
tokenizer = AutoTokenizer.from_pretrained(os.environ["MODEL"])
model = AutoModelForCausalLM.from_pretrained(os.environ["MODEL"])

trainer = SFTTrainer(
    model,
    args=SFTConfig(
        output_dir=os.environ["OUTPUT"],
        dataset_text_field="text",
        max_seq_length=32,
        per_device_train_batch_size=2,
        logging_dir="logs",
        max_steps=3,
        no_cuda=True,
        report_to="none",
    ),
    train_dataset=dataset,
    data_collator=DataCollatorForCompletionOnlyLM("answer:", tokenizer=tokenizer),
    tokenizer=tokenizer,
)
trainer.train()
