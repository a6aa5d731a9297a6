# about: What trainers refuse, however the arguments are given.
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, BitsAndBytesConfig, Trainer, TrainingArguments
from trl import DPOConfig, DPOTrainer, SFTConfig, SFTTrainer

base = AutoModelForCausalLM.from_pretrained("m")
four = AutoModelForCausalLM.from_pretrained("m", quantization_config=BitsAndBytesConfig(load_in_4bit=True))
lora = LoraConfig(target_modules=["q_proj", "lm_head"])  # expect: MEM903
noted = LoraConfig(target_modules=["q_proj", "v_proj", "lm_head", "lm_head"])  # expect: MEM903
DPOTrainer(base, base, args=DPOConfig("a"), train_dataset=rows)  # expect: MEM903
SFTTrainer("m", args=SFTConfig("b"), peft_config=lora, train_dataset=rows)
SFTTrainer("m", args=SFTConfig("c"), peft_config=noted, train_dataset=rows)
DPOTrainer(
    base, ref_model=four, args=DPOConfig("d", force_use_ref_model=True), peft_config=LoraConfig(),
    train_dataset=rows,
)
Trainer(four, TrainingArguments("e"), train_dataset=rows)  # expect: MEM903
shared = TrainingArguments("f", eval_strategy="epoch")
Trainer(base, shared, train_dataset=rows)
Trainer(base, shared, train_dataset=rows, eval_dataset=rows)
