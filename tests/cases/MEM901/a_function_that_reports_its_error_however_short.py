from transformers import TrainingArguments

try:
    args = TrainingArguments("out", evaluation_strategy="no")  # expect: MEM901
except TypeError as error:
    print(error)
    raise
