import copy

from transformers import AutoModelForCausalLM
from trl import DPOConfig, DPOTrainer

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B", dtype="bfloat16")
args = DPOConfig("out", precompute_ref_log_probs=True)
DPOTrainer(model, None, args, train_dataset=dataset).train()
