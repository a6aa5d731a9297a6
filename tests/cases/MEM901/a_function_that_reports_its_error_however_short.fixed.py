from transformers import TrainingArguments

try:
    args = TrainingArguments("out", eval_strategy="no")
except TypeError as error:
    print(error)
    raise
