import argparse
from transformers import AutoModelForCausalLM

parser = argparse.ArgumentParser()
parser.add_argument("--load_8bit", action="store_true", default=False)
args = parser.parse_args()
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B", load_in_8bit=args.load_8bit)  # expect: MEM901
