# target: transformers=4.28,torch=2.0.1
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-7B", torch_dtype="bfloat16")
args = TrainingArguments("out", bf16=True)
Trainer(model=model, args=args, train_dataset=rows).train()
