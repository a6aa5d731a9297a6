import gc
import torch
from transformers import TrainerCallback


class Flush(TrainerCallback):
    def on_step_end(self, args, state, control, **kwargs):
        pass
