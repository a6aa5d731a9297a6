# about: A module that only prepares: a trainer elsewhere may decide otherwise.
from peft import prepare_model_for_kbit_training
from transformers import AutoModelForCausalLM, BitsAndBytesConfig


def load(name):
    quantized = BitsAndBytesConfig(load_in_4bit=True)
    model = AutoModelForCausalLM.from_pretrained(name, quantization_config=quantized)
    return prepare_model_for_kbit_training(model)
