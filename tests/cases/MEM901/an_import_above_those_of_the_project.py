# about: What a fix imports stands with the libraries, not below the project's own modules.
import torch
from transformers import AutoModelForCausalLM
from trl import get_kbit_device_map  # expect: MEM901

from finetuning.rows import rows_of
from .options import options

placed = get_kbit_device_map()
model = AutoModelForCausalLM.from_pretrained(options.name, device_map=placed)
print(torch.__version__, rows_of(model))
