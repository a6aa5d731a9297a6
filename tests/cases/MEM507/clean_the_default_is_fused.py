# target: transformers=5.0,torch=2.8.0
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-7B", dtype="bfloat16")
args = TrainingArguments("out", bf16=True)
Trainer(model=model, args=args, train_dataset=rows).train()
