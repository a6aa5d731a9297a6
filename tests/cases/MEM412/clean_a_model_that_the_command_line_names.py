# about: Who starts it may name a small model, as its page does: it is told where the run does not fit.
import argparse

from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM
from trl import SFTConfig, SFTTrainer

parser = argparse.ArgumentParser()
parser.add_argument("--model", default="Qwen/Qwen3-8B")
options = parser.parse_args()
model = AutoModelForCausalLM.from_pretrained(options.model)
model = get_peft_model(model, LoraConfig())
SFTTrainer(model, args=SFTConfig("out", packing=True, max_length=4096), train_dataset=dataset).train()
