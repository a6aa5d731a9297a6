# target: transformers=4.49
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

base = AutoModelForCausalLM.from_pretrained(checkpoint)
adapted = get_peft_model(base, LoraConfig(task_type="CAUSAL_LM"))
arguments = TrainingArguments("out", bf16=True)
Trainer(model=adapted, args=arguments, train_dataset=rows).train()  # expect: MEM201
