# target: transformers=4.57
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B")  # expect: MEM401
trainer = Trainer(model, TrainingArguments("out", bf16=True), train_dataset=dataset)
