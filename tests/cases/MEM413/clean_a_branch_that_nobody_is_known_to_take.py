# about: Which of three formats it is stands in a file that nobody has read.
import json

from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, BitsAndBytesConfig, Trainer

options = {}
settings = json.load(open("settings.json"))
if settings["format"] == "int4":
    options["quantization_config"] = BitsAndBytesConfig(load_in_4bit=True)
elif settings["format"] == "int8":
    options["quantization_config"] = BitsAndBytesConfig(load_in_8bit=True)
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B", **options)
model = get_peft_model(model, LoraConfig())
Trainer(model=model, train_dataset=rows).train()
