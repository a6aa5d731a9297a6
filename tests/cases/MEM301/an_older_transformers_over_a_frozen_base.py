# target: transformers=4.57,peft=0.17
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
model = get_peft_model(model, LoraConfig())
trainer = Trainer(model, TrainingArguments("out"), train_dataset=dataset)  # expect: MEM301
