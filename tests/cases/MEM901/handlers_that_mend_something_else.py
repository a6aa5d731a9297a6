from contextlib import suppress

from transformers import TrainingArguments

waiting = ["first", "second"]
try:
    args = TrainingArguments("out", evaluation_strategy="steps")  # expect: MEM901
except TypeError as error:
    print(error, waiting.pop())
with suppress(FileNotFoundError):
    args = TrainingArguments("out", evaluation_strategy="steps")  # expect: MEM901
try:
    args = TrainingArguments("out", evaluation_strategy="steps")  # expect: MEM901
except KeyError:
    pass
