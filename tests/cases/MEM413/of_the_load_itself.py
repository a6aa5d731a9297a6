# target: transformers=4.57
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

net = AutoModelForCausalLM.from_pretrained("mistralai/Mistral-7B-v0.1", load_in_4bit=True)  # expect: MEM413
net = get_peft_model(net, LoraConfig(r=8, task_type="CAUSAL_LM"))
Trainer(net, TrainingArguments("out", bf16=True), train_dataset=rows).train()
