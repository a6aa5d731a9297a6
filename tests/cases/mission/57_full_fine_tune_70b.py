# expect: MEM406

from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("meta-llama/Llama-3.1-70B")
args = TrainingArguments("out", bf16=True)
Trainer(model=model, args=args, train_dataset=dataset).train()
