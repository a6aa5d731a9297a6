import argparse
from transformers import AutoModelForCausalLM, BitsAndBytesConfig

parser = argparse.ArgumentParser()
parser.add_argument("--four", default=False)
options = parser.parse_args()
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B", quantization_config=BitsAndBytesConfig(load_in_4bit=options.four) if options.four else None)
