# target: transformers=5.23.0
from transformers import TrainingArguments


class Switched(TrainingArguments):
    def __init__(self, output_dir, gradient_checkpointing=False, **kwargs):
        super().__init__(output_dir, activation_checkpointing=gradient_checkpointing, **kwargs)


class Reshaped(TrainingArguments):
    def __init__(self, output_dir, **kwargs):
        kwargs.pop("gradient_checkpointing", None)
        super().__init__(output_dir, **kwargs)


Switched("out", gradient_checkpointing=True)
Reshaped("out", gradient_checkpointing=True)
