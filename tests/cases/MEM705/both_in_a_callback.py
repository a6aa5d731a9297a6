import gc
import torch
from transformers import TrainerCallback


class Flush(TrainerCallback):
    def on_step_end(self, args, state, control, **kwargs):
        gc.collect()
        torch.cuda.empty_cache()  # expect: MEM705
