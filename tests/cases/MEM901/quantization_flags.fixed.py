from transformers import AutoModelForCausalLM, BitsAndBytesConfig

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B", device_map="auto", quantization_config=BitsAndBytesConfig(load_in_4bit=True))
