import argparse

from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, BitsAndBytesConfig, Trainer

parser = argparse.ArgumentParser()
parser.add_argument("--format", default="int4")
settings = parser.parse_args()
options = {}
if settings.format == "int4":
    options["quantization_config"] = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B", **options)
model = get_peft_model(model, LoraConfig())
Trainer(model=model, train_dataset=rows).train()
