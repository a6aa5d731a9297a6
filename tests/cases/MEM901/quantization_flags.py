from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B", load_in_4bit=True, device_map="auto")  # expect: MEM901
