# about: Nobody knows what the model is.
from elsewhere import model
from transformers import Trainer, TrainingArguments

args = TrainingArguments("out", eval_strategy="epoch")
Trainer(model, args, compute_metrics=accuracy).train()
