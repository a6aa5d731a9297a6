from transformers import TrainingArguments

try:
    print("starting")
    print("reading options")
    print("making arguments")
    args = TrainingArguments("out", evaluation_strategy="no")  # expect: MEM901
except Exception as error:
    print(error)
