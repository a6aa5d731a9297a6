# expect: does not parse

from transformers import TrainingArguments

args = TrainingArguments("out", fp16=True.)
