from transformers import Trainer, TrainingArguments


class Scaled(TrainingArguments):
    def __init__(self, output_dir, scale=1.0, **kwargs):
        super().__init__(output_dir, **kwargs)
        self.scale = scale


args = Scaled("out", scale=0.5)
args.bf16 = True  # expect: MEM904
Trainer("gpt2", args, train_dataset=rows).train()
