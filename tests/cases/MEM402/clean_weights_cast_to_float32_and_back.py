from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B").float()
model = model.bfloat16()
Trainer(model, TrainingArguments("out"), train_dataset=rows).train()
