# target: transformers=5.0
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

net = AutoModelForCausalLM.from_pretrained("mistralai/Mistral-7B-v0.1", load_in_4bit=True)
Trainer(net, TrainingArguments("out", bf16=True), train_dataset=rows).train()
