from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B")
model.requires_grad_(False)
model.lm_head.requires_grad_(True)
Trainer(model=model, args=TrainingArguments("out"), train_dataset=dataset).train()
