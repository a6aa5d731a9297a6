# target: trl=1.16, transformers=5.23
from transformers import Seq2SeqTrainer, Trainer
from trl import DPOTrainer


class PairTrainer(DPOTrainer):
    def __init__(self, model, reference, args, rows, words, strength=0.1):
        super().__init__(
            model=model,
            ref_model=reference,
            beta=strength,  # expect: MEM901
            args=args,
            train_dataset=rows,
            tokenizer=words,  # expect: MEM901
        )


class WeightedTrainer(Trainer):
    def __init__(self, weights, *args, tokenizer=None, **kwargs):
        super(WeightedTrainer, self).__init__(*args, tokenizer=tokenizer, **kwargs)  # expect: MEM901
        self.weights = weights


class Summarizer(Seq2SeqTrainer):
    def __init__(self, model, words, **more):
        super().__init__(model, None, tokenizer=words, **more)  # expect: MEM901


class HandsOn(Trainer):
    def __init__(self, *args, goal=None, **kwargs):
        super().__init__(*args, **kwargs)
        self.goal = goal


HandsOn(model, tokenizer=words, goal=1)  # expect: MEM901
