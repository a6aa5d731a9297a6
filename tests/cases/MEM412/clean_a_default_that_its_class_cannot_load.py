# about: Whoever starts it names another model, of a size that is not known.
import argparse

from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM
from trl import SFTConfig, SFTTrainer

parser = argparse.ArgumentParser()
parser.add_argument("--model", default="google/flan-t5-xl")
options = parser.parse_args()
model = AutoModelForCausalLM.from_pretrained(options.model)
model = get_peft_model(model, LoraConfig())
SFTTrainer(model, args=SFTConfig("out"), train_dataset=dataset).train()
