from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-7B", torch_dtype="bfloat16")
args = TrainingArguments("out", bf16=True, optim="adamw_torch_fused")
Trainer(model=model, args=args, train_dataset=rows).train()
