# about: A removed name that a dictionary or an annotation in quotes names stays imported.
import transformers.deepspeed  # expect: MEM901
from transformers import AdamW as Optimizer  # expect: MEM901
from transformers import is_torch_tpu_available  # expect: MEM901


def made(optimizer: "Optimizer") -> None:
    print(optimizer, getattr(transformers, "is_torch_tpu_available"))
