from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM


class Taught:
    def __init__(self, name, adapted):
        self.model = AutoModelForCausalLM.from_pretrained(name)
        if adapted:
            self.model = get_peft_model(self.model, LoraConfig())
        self.model.activation_checkpointing_enable()


def load(name, fast):
    if fast:
        model = AutoModelForCausalLM.from_pretrained(name, attn_implementation="sdpa")
    else:
        model = AutoModelForCausalLM.from_pretrained(name)
    model.activation_checkpointing_enable()
    return model


def of_parts(name):
    model = AutoModelForCausalLM.from_pretrained(name)
    model.vision.encoder.activation_checkpointing_enable()
    model.decoder.activation_checkpointing_disable()
