# data: article,summary
# fix: unsafe
from datasets import load_dataset
from transformers import (
    AutoModelForSeq2SeqLM,
    AutoTokenizer,
    DataCollatorForSeq2Seq,
    Seq2SeqTrainer,
    Seq2SeqTrainingArguments,
)

checkpoint = "google/flan-t5-base"
tokenizer = AutoTokenizer.from_pretrained(checkpoint)
model = AutoModelForSeq2SeqLM.from_pretrained(checkpoint)
raw = load_dataset("cnn_dailymail", "3.0.0", split="train")


def preprocess(rows):
    inputs = tokenizer(["summarize: " + text for text in rows["article"]], max_length=1024, truncation=True)
    labels = tokenizer(text_target=rows["summary"], max_length=128, truncation=True)
    inputs["labels"] = labels["input_ids"]
    return inputs


train = raw.map(preprocess, batched=True, remove_columns=raw.column_names)
training_args = Seq2SeqTrainingArguments(
    output_dir="t5-cnn",
    per_device_train_batch_size=8,
    learning_rate=1e-3,
    max_steps=3,
    logging_steps=1,
)
trainer = Seq2SeqTrainer(
    model=model,
    args=training_args,
    train_dataset=train,
    data_collator=DataCollatorForSeq2Seq(tokenizer, model=model),
    processing_class=tokenizer,
)
trainer.train()
print([entry["loss"] for entry in trainer.state.log_history if "loss" in entry])
