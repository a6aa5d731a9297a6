from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-4B", dtype="bfloat16")
args = TrainingArguments("out", per_device_train_batch_size=256, bf16=True)  # expect: MEM502
Trainer(model=model, args=args, train_dataset=dataset).train()
