from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained(
    "Qwen/Qwen3-0.6B", use_flash_attention_2="flash_attention_2"  # expect: MEM901
)
