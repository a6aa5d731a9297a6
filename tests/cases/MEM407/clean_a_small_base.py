from peft import LoraConfig
from transformers import AutoModelForCausalLM
from trl import SFTConfig, SFTTrainer

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
SFTTrainer(model, args=SFTConfig(), peft_config=LoraConfig(), train_dataset=dataset).train()
