from transformers import AutoModelForCausalLM
from trl import DPOConfig, DPOTrainer

DPOTrainer(
    model=AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B"),
    ref_model=None,
    args=DPOConfig("out", precompute_ref_log_probs=True),
    train_dataset=dataset,
).train()
