from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
args = TrainingArguments("out", max_steps=100, num_train_epochs=5)
Trainer(model, args, train_dataset=rows).train()
Trainer(model, TrainingArguments("out", num_train_epochs=1), train_dataset=rows).train()
