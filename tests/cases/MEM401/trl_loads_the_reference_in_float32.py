# target: trl=1.15,transformers=5.20
# about: Releases before load it in float32, whatever the policy has.
import torch
from transformers import AutoModelForCausalLM
from trl import DPOConfig, DPOTrainer

policy = AutoModelForCausalLM.from_pretrained(
    "meta-llama/Llama-3.2-1B",
    dtype=torch.float32,  # expect: MEM401
)
DPOTrainer(policy, args=DPOConfig("out"), train_dataset=rows).train()
