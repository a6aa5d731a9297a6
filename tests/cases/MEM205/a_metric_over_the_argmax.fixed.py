import numpy as np
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments


def compute_metrics(eval_pred):
    logits, labels = eval_pred
    predictions = logits
    mask = labels != -100
    return {"accuracy": (predictions == labels)[mask].mean()}


trainer = Trainer(
    model=AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B"),
    args=TrainingArguments("out", eval_strategy="epoch"),
    train_dataset=train,
    eval_dataset=test,
    compute_metrics=compute_metrics,
    preprocess_logits_for_metrics=lambda logits, labels: logits.argmax(dim=-1),
)
