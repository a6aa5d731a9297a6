# expect: MEM502

from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
args = TrainingArguments("out", bf16=True, per_device_train_batch_size=1, gradient_accumulation_steps=64)
Trainer(model=model, args=args, train_dataset=dataset).train()
