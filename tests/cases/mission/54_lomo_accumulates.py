# expect: MEM505

from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B")
args = TrainingArguments("out", bf16=True, optim="lomo", gradient_accumulation_steps=8)
Trainer(model=model, args=args, train_dataset=dataset).train()
