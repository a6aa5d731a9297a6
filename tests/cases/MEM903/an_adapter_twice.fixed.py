from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM
from trl import SFTConfig, SFTTrainer

lora = LoraConfig()
model = get_peft_model(AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B"), lora)
trainer = SFTTrainer(model, args=SFTConfig("out"), train_dataset=dataset)
