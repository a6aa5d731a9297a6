# target: transformers=5.23.0
from transformers import Trainer, TrainingArguments


class Scaled(TrainingArguments):
    def __init__(self, output_dir, scale=1.0, **kwargs):
        super().__init__(output_dir, **kwargs)
        self.scale = scale


args = Scaled("out", scale=0.5, gradient_checkpointing=True)  # expect: MEM902
Trainer(model, args, train_dataset=rows).train()
