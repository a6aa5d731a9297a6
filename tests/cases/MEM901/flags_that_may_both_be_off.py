from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B", load_in_4bit=four, load_in_8bit=eight)  # expect: MEM901, MEM901
