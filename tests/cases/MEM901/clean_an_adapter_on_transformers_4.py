# target: transformers=4.50,peft=0.15
# about: The base's loader still takes it.
from peft import AutoPeftModelForCausalLM

model = AutoPeftModelForCausalLM.from_pretrained("out", load_in_4bit=True)
