# about: given to torch.compile: of the first releases, for a while, by position in a variable
import torch
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B")
BACKEND = "aot_ts_nvfuser"  # expect: MEM901
quick = torch.compile(model, backend=BACKEND, dynamic=True)
older = torch.compile(model, backend="nvfuser")  # expect: MEM901


@torch.compile(backend="ofi")  # expect: MEM901
def step(batch):
    return model(**batch).loss
