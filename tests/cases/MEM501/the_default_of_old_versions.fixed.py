from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-7B")
args = TrainingArguments("out", bf16=True, optim="adamw_bnb_8bit")
Trainer(model=model, args=args, train_dataset=dataset).train()
