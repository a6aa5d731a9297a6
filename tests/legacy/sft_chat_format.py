"""A base model taught to chat, as it was written in 2023: ChatML, texts in batches, a helper."""

import os

from datasets import load_dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainingArguments
from trl import DataCollatorForCompletionOnlyLM, SFTTrainer, setup_chat_format


def texts(rows):
    made = []
    for i in range(len(rows["question"])):
        question = {"role": "user", "content": rows["question"][i]}
        answer = {"role": "assistant", "content": rows["answer"][i]}
        text = tokenizer.apply_chat_template([question, answer], tokenize=False)
        made.append(text)
    return made


def make(model, tokenizer, args, length):
    return SFTTrainer(
        model,
        args=args,
        train_dataset=dataset,
        formatting_func=texts,
        data_collator=DataCollatorForCompletionOnlyLM(
            instruction_template="<|im_start|>user",
            response_template="<|im_start|>assistant",
            tokenizer=tokenizer,
            mlm=False,
        ),
        max_seq_length=length,
        packing=False,
        tokenizer=tokenizer,
    )


dataset = load_dataset("json", data_files=os.environ["DATA"], split="train")
dataset = dataset.select_columns(["prompt", "completion"])
dataset = dataset.rename_columns({"prompt": "question", "completion": "answer"})
tokenizer = AutoTokenizer.from_pretrained(os.environ["MODEL"])
model = AutoModelForCausalLM.from_pretrained(os.environ["MODEL"])
model, tokenizer = setup_chat_format(model, tokenizer)
options = {
    "per_device_train_batch_size": 2,
    "max_steps": 3,
    "warmup_ratio": 0.1,
    "no_cuda": True,
    "report_to": "none",
}
trainer = make(model, tokenizer, TrainingArguments(os.environ["OUTPUT"], **options), 48)
trainer.train()
