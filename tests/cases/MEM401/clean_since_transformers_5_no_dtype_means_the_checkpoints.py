# about: Since transformers 5 no dtype means the checkpoint's own.
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B")
Trainer(model, TrainingArguments("out"), train_dataset=dataset)
