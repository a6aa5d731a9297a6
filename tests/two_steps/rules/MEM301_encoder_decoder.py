# data: article,highlights
from datasets import load_dataset
from transformers import (
    AutoModelForSeq2SeqLM,
    AutoTokenizer,
    DataCollatorForSeq2Seq,
    Seq2SeqTrainer,
    Seq2SeqTrainingArguments,
)

model_checkpoint = "google/flan-t5-large"
tokenizer = AutoTokenizer.from_pretrained(model_checkpoint)
model = AutoModelForSeq2SeqLM.from_pretrained(model_checkpoint)
raw_datasets = load_dataset("cnn_dailymail", "3.0.0")


def preprocess_function(examples):
    model_inputs = tokenizer(
        ["summarize: " + doc for doc in examples["article"]], max_length=128, truncation=True
    )
    labels = tokenizer(text_target=examples["highlights"], max_length=64, truncation=True)
    model_inputs["labels"] = labels["input_ids"]
    return model_inputs


tokenized = raw_datasets.map(preprocess_function, batched=True)
args = Seq2SeqTrainingArguments(
    "flan-t5-cnn",
    eval_strategy="epoch",
    per_device_train_batch_size=4,
    per_device_eval_batch_size=4,
    weight_decay=0.01,
    predict_with_generate=True,
    generation_max_length=8,
    learning_rate=1e-3,
    max_steps=3,
    logging_steps=1,
)
trainer = Seq2SeqTrainer(
    model,
    args,
    train_dataset=tokenized["train"],
    eval_dataset=tokenized["test"].select(range(8)),
    data_collator=DataCollatorForSeq2Seq(tokenizer, model=model),
    processing_class=tokenizer,
)
trainer.train()
print([entry["loss"] for entry in trainer.state.log_history if "loss" in entry])
print(trainer.evaluate()["eval_loss"])
