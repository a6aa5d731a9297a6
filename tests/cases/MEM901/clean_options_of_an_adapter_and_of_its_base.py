# about: The loader of an adapter has options of its own, and hands the others to that of the base.
from peft import AutoPeftModelForCausalLM
from transformers import BitsAndBytesConfig

model = AutoPeftModelForCausalLM.from_pretrained(
    "out",
    adapter_name="load_in_4bit",
    is_trainable=True,
    quantization_config=BitsAndBytesConfig(load_in_4bit=True),
)
