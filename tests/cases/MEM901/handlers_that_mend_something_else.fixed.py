from contextlib import suppress

from transformers import TrainingArguments

waiting = ["first", "second"]
try:
    args = TrainingArguments("out", eval_strategy="steps")
except TypeError as error:
    print(error, waiting.pop())
with suppress(FileNotFoundError):
    args = TrainingArguments("out", eval_strategy="steps")
try:
    args = TrainingArguments("out", eval_strategy="steps")
except KeyError:
    pass
