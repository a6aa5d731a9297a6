# expect: MEM402 unsafe

from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("gpt2-xl")
args = TrainingArguments("out")
Trainer(model=model, args=args, train_dataset=dataset).train()
