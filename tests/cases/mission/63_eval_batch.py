# expect: MEM207 safe

from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B")
args = TrainingArguments("out", bf16=True, per_device_train_batch_size=1, eval_strategy="epoch")
trainer = Trainer(model=model, args=args, train_dataset=train, eval_dataset=test)
trainer.train()
