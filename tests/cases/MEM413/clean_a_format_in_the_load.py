# target: transformers=4.57
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

name = "mistralai/Mistral-7B-v0.1"
first = AutoModelForCausalLM.from_pretrained(name, load_in_4bit=True, bnb_4bit_quant_type="nf4")
second = AutoModelForCausalLM.from_pretrained(name, load_in_4bit=True, quantization_config=config)
third = AutoModelForCausalLM.from_pretrained(name, load_in_4bit=False, load_in_8bit=True)
for net in (first, second, third):
    net = get_peft_model(net, LoraConfig(r=8, task_type="CAUSAL_LM"))
    Trainer(net, TrainingArguments("out", bf16=True), train_dataset=rows).train()
