from school import load
from torch import nn
from transformers import AutoModelForCausalLM, Trainer


class Reader(nn.Module):
    def __init__(self, own):
        super().__init__()
        self.words = load("words")
        self.body = AutoModelForCausalLM.from_pretrained("gpt2")
        if own:
            self.body = load("body")
        self.words.gradient_checkpointing_enable()
        self.body.gradient_checkpointing_enable()

    def gradient_checkpointing_enable(self):
        self.words.gradient_checkpointing_enable()


reader = Reader(own)
reader.gradient_checkpointing_enable()
trainer = Trainer(reader, train_dataset=rows)
trainer.model.gradient_checkpointing_enable()
