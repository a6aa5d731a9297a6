from elsewhere import Mixin
from transformers import Trainer


class Renaming(Trainer):
    def __init__(self, *args, **kwargs):
        kwargs["processing_class"] = kwargs.pop("tokenizer", None)
        super().__init__(*args, **kwargs)


class Taking(Trainer):
    def __init__(self, *args, tokenizer=None, **kwargs):
        super().__init__(*args, processing_class=tokenizer, **kwargs)


class Mixed(Mixin, Trainer):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)


class Plain(Trainer):
    def __init__(self, *args, **kwargs):
        Trainer.__init__(self, *args)


Renaming(model=model, tokenizer=tokenizer)
Taking(model=model, tokenizer=tokenizer)
Mixed(model=model, tokenizer=tokenizer)
Plain(model=model, tokenizer=tokenizer)
