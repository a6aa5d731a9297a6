# data: text
import numpy as np
from datasets import load_dataset
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    DataCollatorForLanguageModeling,
    Trainer,
    TrainingArguments,
)

checkpoint = "Qwen/Qwen3-0.6B"
tokenizer = AutoTokenizer.from_pretrained(checkpoint)
model = AutoModelForCausalLM.from_pretrained(checkpoint)
data = load_dataset("wikitext", "wikitext-2-raw-v1")
data = data.map(
    lambda rows: tokenizer(rows["text"], truncation=True, max_length=64),
    batched=True,
    remove_columns=["text"],
)


def compute_metrics(eval_preds):
    logits, labels = eval_preds
    predictions = np.argmax(logits, axis=-1)
    shifted, wanted = predictions[:, :-1], labels[:, 1:]
    counted = wanted != -100
    return {"accuracy": float((shifted == wanted)[counted].mean())}


trainer = Trainer(
    model=model,
    args=TrainingArguments(
        output_dir="out",
        per_device_train_batch_size=4,
        per_device_eval_batch_size=4,
        eval_strategy="steps",
        eval_steps=2,
        learning_rate=5e-3,
        max_steps=4,
        logging_steps=1,
    ),
    train_dataset=data["train"],
    eval_dataset=data["validation"],
    data_collator=DataCollatorForLanguageModeling(tokenizer, mlm=False),
    compute_metrics=compute_metrics,
)
trainer.train()
metrics = trainer.evaluate()
print("accuracy", metrics["eval_accuracy"], "loss", metrics["eval_loss"])
