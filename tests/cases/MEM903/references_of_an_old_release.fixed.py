from peft import LoraConfig
from transformers import AutoModelForCausalLM, TrainingArguments
from trl import DPOTrainer

lora = LoraConfig(target_modules=["q_proj", "v_proj", "lm_head"])
base = AutoModelForCausalLM.from_pretrained("m")
other = AutoModelForCausalLM.from_pretrained("m")
DPOTrainer(base, ref_model=base, args=TrainingArguments("a"), train_dataset=rows)
DPOTrainer(base, args=TrainingArguments("b"), peft_config=lora, train_dataset=rows)
