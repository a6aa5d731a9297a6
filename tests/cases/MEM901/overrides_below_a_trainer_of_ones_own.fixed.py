import torch
from transformers import Trainer
from trl import SFTTrainer


class Base(Trainer):
    def get_train_dataloader(self):
        return self.loader


class Taught(Base):
    def training_step(self, model, inputs, num_items_in_batch=None):
        return super().training_step(model, inputs)


class Weighed(Taught):
    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        loss = model(**inputs).loss * self.weight
        return (loss, loss) if return_outputs else loss


class Quiet(SFTTrainer):
    name = "quiet"


class Tuned(Quiet):
    def log(self, logs, start_time=None):
        super().log({**logs, "memory": torch.cuda.max_memory_allocated()})


class Runner:
    def fit(self, rows):
        return [self.training_step(self.model, one) for one in rows]


class Plain(Runner):
    def training_step(self, model, inputs):
        return model(**inputs).loss


class Open(Base):
    def compute_loss(self, model, inputs, return_outputs=False, **rest):
        return model(**inputs).loss
