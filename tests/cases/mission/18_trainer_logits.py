# expect: MEM201 safe

from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B")
args = TrainingArguments("out", bf16=True)
trainer = Trainer(model=model, args=args, train_dataset=dataset)
trainer.train()
