from peft import AutoPeftModelForCausalLM
from transformers import BitsAndBytesConfig

model = AutoPeftModelForCausalLM.from_pretrained(
    "out",
    is_trainable=True,
    device_map="auto",
    quantization_config=BitsAndBytesConfig(load_in_4bit=True),
)
