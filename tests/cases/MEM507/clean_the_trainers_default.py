from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-7B", dtype="bfloat16")
args = TrainingArguments("out", bf16=True, adam_beta2=0.95)
Trainer(model=model, args=args, train_dataset=rows, optimizers=(torch.optim.AdamW(model.parameters()), None)).train()
