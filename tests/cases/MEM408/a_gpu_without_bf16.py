# about: fp16 for a T4, and for both of the configurations that are compared.
import torch
from transformers import AutoModelForCausalLM, BitsAndBytesConfig
from trl import DPOConfig, DPOTrainer

ROOT = "/kaggle/input/llama/"
policy_bits = BitsAndBytesConfig(load_in_4bit=True)  # expect: MEM408
frozen_bits = BitsAndBytesConfig(
    load_in_4bit=True,
    bnb_4bit_compute_dtype=torch.float32,  # expect: MEM408
)
policy = AutoModelForCausalLM.from_pretrained(ROOT, quantization_config=policy_bits)
frozen = AutoModelForCausalLM.from_pretrained(ROOT, quantization_config=frozen_bits)
DPOTrainer(policy, frozen, args=DPOConfig("out"), train_dataset=rows).train()
