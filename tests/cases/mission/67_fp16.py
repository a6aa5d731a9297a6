# expect: MEM403

from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B")
args = TrainingArguments("out", fp16=True)
Trainer(model=model, args=args, train_dataset=dataset).train()
