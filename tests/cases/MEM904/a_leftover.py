from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B", low_cpu_mem_usage=True)  # expect: MEM904 hint
