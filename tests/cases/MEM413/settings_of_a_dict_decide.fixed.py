from peft import LoraConfig
from transformers import AutoModelForCausalLM, BitsAndBytesConfig
from trl import SFTConfig, SFTTrainer

settings = {"use_qlora": True, "base": "Qwen/Qwen3-8B"}
bits = None
if settings.get("use_qlora", False):
    bits = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_compute_dtype="bfloat16", bnb_4bit_quant_type="nf4")
if settings["other"]:
    bits = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_compute_dtype="bfloat16")
model = AutoModelForCausalLM.from_pretrained(settings["base"], quantization_config=bits)
SFTTrainer(model, args=SFTConfig(), peft_config=LoraConfig(), train_dataset=rows).train()
