# about: The new name is tried first.
from transformers import TrainingArguments

try:
    args = TrainingArguments("out", eval_strategy="no")
except TypeError:
    args = TrainingArguments("out", evaluation_strategy="no")
