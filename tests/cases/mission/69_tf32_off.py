# expect: MEM404

from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("gpt2-xl")
args = TrainingArguments("out", tf32=False)
Trainer(model=model, args=args, train_dataset=dataset).train()
