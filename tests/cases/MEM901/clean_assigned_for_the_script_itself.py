# about: Attributes that the script assigns and reads: the library has no part in them.
from transformers import Trainer, TrainingArguments


class Capped(Trainer):
    def __init__(self, model, args, **others):
        super().__init__(model, args, **others)
        self.fresh = args.overwrite_output_dir

    def evaluate(self, *given):
        return super().evaluate(*given) if self.args.group_by_length else {}


def start(settings):
    return "anew" if getattr(settings, "jit_mode_eval") else "again"


args = TrainingArguments("out")
args.overwrite_output_dir = True
args.jit_mode_eval = True
args.group_by_length = True
print(start(args))
Capped(model, args, train_dataset=dataset).train()
args.prediction_loss_only = args.logging_nan_inf_filter = True
args.past_index = 3
print({name: getattr(args, name) for name in ("past_index", "seed")})
