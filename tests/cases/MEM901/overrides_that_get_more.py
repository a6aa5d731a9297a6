# about: Overrides that take what they get by position, by name, or not at all.
from transformers import Trainer
from trl import SFTTrainer


class Open(Trainer):
    def log(self, *arguments):
        print(arguments)

    def compute_loss(self, model, inputs, **rest):
        return model(**inputs).loss


class Known(Trainer):
    model_accepts_loss_kwargs = False

    def compute_loss(self, model, inputs, return_outputs=False):  # expect: MEM901
        return model(**inputs).loss


class Tuned(SFTTrainer):
    def training_step(self, model, inputs):  # expect: MEM901
        return super().training_step(model, inputs)

    def compute_loss(self, model, inputs, return_outputs=False, *, num_items_in_batch=None):
        return model(**inputs).loss


class Mixed(object, Trainer):
    def log(self, logs, **options):
        print(logs)


class Renamed(Trainer):
    def training_step(self, model, inputs, number=None):
        return super().training_step(model, inputs, number)

    def log(self, logs, began=None):
        print(logs, began)
