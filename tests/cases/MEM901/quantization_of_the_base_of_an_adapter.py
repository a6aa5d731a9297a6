from peft import AutoPeftModelForCausalLM

model = AutoPeftModelForCausalLM.from_pretrained(
    "out",
    is_trainable=True,
    load_in_4bit=True,  # expect: MEM901
    device_map="auto",
)
