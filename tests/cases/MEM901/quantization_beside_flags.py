# about: Flags of quantization beside a configuration that holds, that is None, that may be None.
from transformers import AutoModelForCausalLM, BitsAndBytesConfig

four = BitsAndBytesConfig(load_in_4bit=True)


def load(name, quantization, *rest, **options):
    AutoModelForCausalLM.from_pretrained(name, load_in_8bit=True, quantization_config=four)  # expect: MEM901
    AutoModelForCausalLM.from_pretrained(name, load_in_8bit=True, quantization_config=None)  # expect: MEM901
    AutoModelForCausalLM.from_pretrained(name, load_in_8bit=True, quantization_config=quantization)  # expect: MEM901
    AutoModelForCausalLM.from_pretrained(name, load_in_8bit=True, quantization_config=make(name))  # expect: MEM901
    AutoModelForCausalLM.from_pretrained(name, load_in_4bit=True, load_in_8bit=False)  # expect: MEM901, MEM901
