from peft import LoraConfig
from transformers import AutoModelForCausalLM, BitsAndBytesConfig
from trl import SFTConfig, SFTTrainer

bits = BitsAndBytesConfig(load_in_4bit=True)
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B", quantization_config=bits)
SFTTrainer(model, args=SFTConfig(), peft_config=LoraConfig(), train_dataset=dataset).train()
