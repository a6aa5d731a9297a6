import argparse
from transformers import AutoModelForCausalLM

parser = argparse.ArgumentParser()
parser.add_argument("--four", default=False)
options = parser.parse_args()
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B", load_in_4bit=options.four)  # expect: MEM901
