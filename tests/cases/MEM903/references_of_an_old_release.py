# about: What today's trainers refuse together, older ones took.
# target: trl=0.7.2,transformers=4.36
from peft import LoraConfig
from transformers import AutoModelForCausalLM, TrainingArguments
from trl import DPOTrainer

lora = LoraConfig(target_modules=["q_proj", "v_proj", "lm_head"])
base = AutoModelForCausalLM.from_pretrained("m")
other = AutoModelForCausalLM.from_pretrained("m")
DPOTrainer(base, ref_model=base, args=TrainingArguments("a"), train_dataset=rows)
DPOTrainer(base, ref_model=other, args=TrainingArguments("b"), peft_config=lora, train_dataset=rows)  # expect: MEM903
