import transformers.deepspeed
from torch.optim import AdamW as Optimizer
from transformers import is_torch_xla_available as is_torch_tpu_available


def made(optimizer: "Optimizer") -> None:
    print(optimizer, getattr(transformers, "is_torch_tpu_available"))
