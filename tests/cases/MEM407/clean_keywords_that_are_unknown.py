from peft import LoraConfig
from transformers import AutoModelForCausalLM
from trl import SFTConfig, SFTTrainer

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B", **read_options())
SFTTrainer(model, args=SFTConfig(), peft_config=LoraConfig(), train_dataset=dataset).train()
