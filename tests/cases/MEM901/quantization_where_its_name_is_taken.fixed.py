from transformers import AutoModelForCausalLM


def BitsAndBytesConfig(name):
    return name


AutoModelForCausalLM.from_pretrained("m", load_in_8bit=True)
options = {"load_in_4bit": True}
AutoModelForCausalLM.from_pretrained("m", **options)
