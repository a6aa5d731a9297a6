from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("gpt2")
args = TrainingArguments("out", per_device_train_batch_size=64)
Trainer(model=model, args=args, train_dataset=dataset).train()
