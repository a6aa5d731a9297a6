# about: The name of the configuration is another thing's here.
from transformers import AutoModelForCausalLM


def BitsAndBytesConfig(name):
    return name


AutoModelForCausalLM.from_pretrained("m", load_in_8bit=True)  # expect: MEM901
options = {"load_in_4bit": True}  # expect: MEM901
AutoModelForCausalLM.from_pretrained("m", load_in_8bit=False, **options)  # expect: MEM901
