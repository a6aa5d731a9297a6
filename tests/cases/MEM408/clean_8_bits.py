# about: 8-bit layers compute in the dtype of their inputs.
from peft import LoraConfig
from transformers import AutoModelForCausalLM, BitsAndBytesConfig
from trl import SFTConfig, SFTTrainer

bits = BitsAndBytesConfig(load_in_8bit=True, llm_int8_skip_modules=["load_in_4bit"])
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B", quantization_config=bits)
SFTTrainer(model, args=SFTConfig(), peft_config=LoraConfig(), train_dataset=dataset).train()
