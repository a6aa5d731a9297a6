# about: It is made to evaluate: no optimizer ever steps.
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-7B", dtype="bfloat16")
args = TrainingArguments("out", bf16=True, optim="adamw_torch")
print(Trainer(model=model, args=args, eval_dataset=rows).evaluate())
