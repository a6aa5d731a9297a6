import inspect
from transformers import TrainingArguments

name = "evaluation_strategy"
if name not in inspect.signature(TrainingArguments).parameters:
    name = "eval_strategy"
args = TrainingArguments("out", **{name: "epoch"})
