# about: Nothing is trained: what a batch of one unpacks is small.
from transformers import AutoModelForCausalLM, BitsAndBytesConfig

bits = BitsAndBytesConfig(load_in_4bit=True)
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B", quantization_config=bits)
print(model.generate(**inputs))
