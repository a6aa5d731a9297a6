from peft import LoraConfig
from trl import SFTConfig, SFTTrainer

lora = LoraConfig(target_modules=["q_proj", "v_proj", "lm_head"])  # expect: MEM903
trainer = SFTTrainer("Qwen/Qwen3-8B", args=SFTConfig("out"), train_dataset=dataset, peft_config=lora)
