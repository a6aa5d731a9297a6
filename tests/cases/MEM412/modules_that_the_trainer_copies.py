# about: PEFT copies modules to save when it wraps the base, in the trainer: a streamed one cannot be copied.
from peft import LoraConfig
from transformers import AutoModelForCausalLM
from trl import DPOConfig, DPOTrainer

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B")  # expect: MEM412
lora = LoraConfig(modules_to_save=["lm_head"])
DPOTrainer(model, args=DPOConfig("out"), peft_config=lora, train_dataset=dataset).train()
