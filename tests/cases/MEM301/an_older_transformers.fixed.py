from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
trainer = Trainer(model, TrainingArguments("out", bf16=True, gradient_checkpointing=True), train_dataset=dataset)
