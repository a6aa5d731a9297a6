from transformers import Seq2SeqTrainer, Trainer
from trl import DPOTrainer


class PairTrainer(DPOTrainer):
    def __init__(self, model, reference, args, rows, words, strength=0.1):
        super().__init__(
            model=model,
            ref_model=reference,
            beta=strength,
            args=args,
            train_dataset=rows,
            processing_class=words,
        )


class WeightedTrainer(Trainer):
    def __init__(self, weights, *args, tokenizer=None, **kwargs):
        super(WeightedTrainer, self).__init__(
            *args,
            processing_class=tokenizer,
            **kwargs,
        )
        self.weights = weights


class Summarizer(Seq2SeqTrainer):
    def __init__(self, model, words, **more):
        super().__init__(model, None, processing_class=words, **more)


class HandsOn(Trainer):
    def __init__(self, *args, goal=None, **kwargs):
        super().__init__(*args, **kwargs)
        self.goal = goal


HandsOn(model, processing_class=words, goal=1)
