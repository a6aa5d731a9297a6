# about: A `TypeError` is caught, and the call tried again without what was refused.
import re
from contextlib import suppress

from transformers import TrainingArguments


def build(cls, options):
    while True:
        try:
            return cls(**options)
        except TypeError as error:
            refused = re.search("'(.+)'", str(error))
            if refused is None:
                raise
            del options[refused[1]]


build(TrainingArguments, {"output_dir": "out", "evaluation_strategy": "steps"})

options = dict(output_dir="out", evaluation_strategy="steps", overwrite_output_dir=True)
args = None
while args is None:
    try:
        args = TrainingArguments(**options)
    except TypeError as error:
        for name in list(options):
            if name in str(error):
                print("without", name, options.pop(name))

others = {"output_dir": "out", "evaluation_strategy": "steps"}
with suppress(TypeError):
    args = TrainingArguments(**others)
try:
    args = TrainingArguments(**others)
except TypeError:
    pass
