# about: Inference.
from transformers import AutoModelForCausalLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
tokens = tokenizer(prompts, padding="max_length", max_length=128, return_tensors="pt")
print(AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B").generate(**tokens))
