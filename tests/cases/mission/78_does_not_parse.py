# expect: MEM002

from transformers import TrainingArguments

args = TrainingArguments("out", fp16=True.)
