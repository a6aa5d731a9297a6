# about: What is given is kept, whatever was computed with it: the copy goes too.
import copy

from transformers import AutoModelForCausalLM
from trl import DPOConfig, DPOTrainer

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B", dtype="bfloat16")
reference = copy.deepcopy(model)
args = DPOConfig("out")
DPOTrainer(model, reference, args, train_dataset=dataset).train()  # expect: MEM405
