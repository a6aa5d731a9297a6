import transformers
from packaging import version
from transformers import Trainer


class Guarded(Trainer):
    def __init__(self, model, args, tokenizer):
        try:
            super().__init__(model=model, args=args, processing_class=tokenizer)
        except TypeError:
            super().__init__(model=model, args=args, tokenizer=tokenizer)


class Versioned(Trainer):
    def __init__(self, model, args, tokenizer):
        if version.parse(transformers.__version__) >= version.parse("4.46"):
            super().__init__(model=model, args=args, processing_class=tokenizer)
        else:
            super().__init__(model=model, args=args, tokenizer=tokenizer)


class Renames:
    def __init__(self, **kwargs):
        kwargs["processing_class"] = kwargs.pop("tokenizer")
        super().__init__(**kwargs)


class Mixed(Renames, Trainer):
    def __init__(self, model, args, tokenizer):
        super().__init__(model=model, args=args, tokenizer=tokenizer)


class Middle(Guarded):
    def __init__(self, model, args, tokenizer):
        super().__init__(model=model, args=args, tokenizer=tokenizer)


def train(own, model, args, tokenizer):
    chosen = Guarded if own else Trainer
    return chosen(model=model, args=args, tokenizer=tokenizer)
