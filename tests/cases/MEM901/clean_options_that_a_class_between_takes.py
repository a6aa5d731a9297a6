# target: trl=1.16, transformers=5.23
from transformers import Trainer


class Counts:
    def __init__(self, tokenizer=None, **kwargs):
        super().__init__(**kwargs)
        self.words = tokenizer


class Counting(Counts, Trainer):
    def __init__(self, words, **kwargs):
        super().__init__(tokenizer=words, **kwargs)


class Either(Trainer):
    def __init__(self, words, **kwargs):
        try:
            super().__init__(processing_class=words, **kwargs)
        except TypeError:
            super().__init__(tokenizer=words, **kwargs)


class Above(Trainer):
    def __init__(self, tokenizer=None, **kwargs):
        super().__init__(**kwargs)
        self.words = tokenizer


class Below(Above):
    def __init__(self, words, **kwargs):
        super().__init__(tokenizer=words, **kwargs)
