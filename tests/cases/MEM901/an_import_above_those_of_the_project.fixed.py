import torch
from transformers import AutoModelForCausalLM
from accelerate import PartialState

from finetuning.rows import rows_of
from .options import options

placed = {"": PartialState().local_process_index}
model = AutoModelForCausalLM.from_pretrained(options.name, device_map=placed)
print(torch.__version__, rows_of(model))
