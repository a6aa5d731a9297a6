# expect: MEM501

from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("gpt2-xl")
args = TrainingArguments("out", bf16=True)
Trainer(model=model, args=args, train_dataset=dataset).train()
