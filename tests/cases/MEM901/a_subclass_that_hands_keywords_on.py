from transformers import Trainer


class Weighted(Trainer):
    def __init__(self, *args, weights=None, **kwargs):
        super().__init__(*args, **kwargs)
        self.weights = weights


class Logged(Trainer):
    def __init__(self, model, log, **others):
        self.log_file = log
        super().__init__(model=model, **others)


Weighted(model=model, args=args, tokenizer=tokenizer, weights=weights)  # expect: MEM901
Logged(model, "log", args=args, tokenizer=tokenizer)  # expect: MEM901
Logged(model, log="log", args=args, dataset=rows)  # expect: MEM901
