# expect: MEM804

from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B")
args = TrainingArguments("out", bf16=True, num_train_epochs=10)
Trainer(model=model, args=args, train_dataset=dataset).train()
