# about: what a signature, a list or another program decides is no fault of the dict.
import inspect

from transformers import Trainer, TrainingArguments

options = {"output_dir": "out", "warmup_ratio": 0.1}
taken = inspect.signature(TrainingArguments.__init__).parameters
args = TrainingArguments(**{name: value for name, value in options.items() if name in taken})


def made(**options):
    for name in list(options):
        if name not in taken:
            options.pop(name)
    return TrainingArguments(**options)


made(output_dir="out", warmup_ratio=0.1)
trimmed = {"output_dir": "out", "warmup_ratio": 0.1}
for name in outdated():
    trimmed.pop(name, None)
args = TrainingArguments(**trimmed)
shorter = {"output_dir": "out", "warmup_ratio": 0.1}
for name in ("warmup_ratio", "tf32"):
    del shorter[name]
args = TrainingArguments(**shorter)
