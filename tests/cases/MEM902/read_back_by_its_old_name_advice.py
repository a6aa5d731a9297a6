import torch
from transformers import AutoModelForCausalLM, BitsAndBytesConfig

options = dict(torch_dtype=torch.bfloat16, device_map="auto")  # expect: MEM902
config = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_compute_dtype=options["torch_dtype"])
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B", quantization_config=config, **options)
