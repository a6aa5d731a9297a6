# about: The policy has moved away from its copy when preferences are trained.
import copy

from transformers import AutoModelForCausalLM
from trl import DPOConfig, DPOTrainer, SFTConfig, SFTTrainer

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B")
first = copy.deepcopy(model)
SFTTrainer(model, SFTConfig("out"), train_dataset=texts).train()
DPOTrainer(model, ref_model=first, args=DPOConfig("out"), train_dataset=pairs).train()
