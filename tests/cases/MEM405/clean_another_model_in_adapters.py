# about: A reference of other weights is no copy of the base.
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM
from trl import DPOConfig, DPOTrainer

policy = get_peft_model(AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-4B"), LoraConfig(r=16))
base = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B")
reference = get_peft_model(base, LoraConfig(r=16))
DPOTrainer(policy, reference, args=DPOConfig("out"), train_dataset=pairs).train()
