from transformers import AutoModelForCausalLM, BitsAndBytesConfig

four = BitsAndBytesConfig(load_in_4bit=True)


def load(name, quantization, *rest, **options):
    AutoModelForCausalLM.from_pretrained(name, quantization_config=four)
    AutoModelForCausalLM.from_pretrained(name, load_in_8bit=True, quantization_config=None)
    AutoModelForCausalLM.from_pretrained(name, quantization_config=quantization or BitsAndBytesConfig(load_in_8bit=True))
    AutoModelForCausalLM.from_pretrained(name, load_in_8bit=True, quantization_config=make(name))
    AutoModelForCausalLM.from_pretrained(name, quantization_config=BitsAndBytesConfig(load_in_4bit=True))
