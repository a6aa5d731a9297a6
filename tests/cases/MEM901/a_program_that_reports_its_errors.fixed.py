from transformers import TrainingArguments

try:
    print("starting")
    print("reading options")
    print("making arguments")
    args = TrainingArguments("out", eval_strategy="no")
except Exception as error:
    print(error)
