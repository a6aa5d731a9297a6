from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
args = TrainingArguments("out", bf16=True, activation_checkpointing=True)
trainer = Trainer(model=model, args=args, train_dataset=dataset, compute_metrics=accuracy)  # expect: MEM201
