# about: Given, and evaluated once.
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
args = TrainingArguments("out", per_device_train_batch_size=4, per_device_eval_batch_size=16)  # expect: MEM207
trainer = Trainer(model=model, args=args, train_dataset=train, eval_dataset=test)
trainer.train()
trainer.evaluate()
