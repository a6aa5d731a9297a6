from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM


class Taught:
    def __init__(self, name, adapted):
        self.model = AutoModelForCausalLM.from_pretrained(name)
        if adapted:
            self.model = get_peft_model(self.model, LoraConfig())
        self.model.gradient_checkpointing_enable()  # expect: MEM902 notice


def load(name, fast):
    if fast:
        model = AutoModelForCausalLM.from_pretrained(name, attn_implementation="sdpa")
    else:
        model = AutoModelForCausalLM.from_pretrained(name)
    model.gradient_checkpointing_enable()  # expect: MEM902 notice
    return model


def of_parts(name):
    model = AutoModelForCausalLM.from_pretrained(name)
    model.vision.encoder.gradient_checkpointing_enable()  # expect: MEM902 notice
    model.decoder.gradient_checkpointing_disable()  # expect: MEM902 notice
