# about: A classifier's head is new: it must be trained, and is small.
from peft import LoraConfig
from transformers import AutoModelForSequenceClassification, Trainer, TrainingArguments
from peft import get_peft_model

model = AutoModelForSequenceClassification.from_pretrained("Qwen/Qwen3-8B")
model = get_peft_model(model, LoraConfig(modules_to_save=["score", "classifier"]))
Trainer(model, TrainingArguments("out"), train_dataset=dataset).train()
