# about: Before transformers 5 a model without a dtype is float32, and so are its states.
# target: trl=0.12,transformers=4.46
# target: trl=0.24,transformers=4.56
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-7B")
args = TrainingArguments("out", bf16=True)
Trainer(model=model, args=args, train_dataset=dataset).train()  # expect: MEM501
