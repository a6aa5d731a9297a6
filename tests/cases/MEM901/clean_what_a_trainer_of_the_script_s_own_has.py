from tools import Keeping
from transformers import Trainer


class Setting(Trainer):
    def __init__(self, *args, tokenizer=None, **kwargs):
        super().__init__(*args, processing_class=tokenizer, **kwargs)
        self.tokenizer = tokenizer

    def _save(self, output_dir=None, state_dict=None):
        self.tokenizer.save_pretrained(output_dir)


class Inheriting(Setting):
    def save_twice(self, output_dir):
        self.tokenizer.save_pretrained(output_dir)


class Mixed(Keeping, Trainer):
    def save_mixed(self, output_dir):
        self.tokenizer.save_pretrained(output_dir)


class Asking(Trainer):
    def save_asked(self, output_dir):
        if hasattr(self, "tokenizer"):
            self.tokenizer.save_pretrained(output_dir)
