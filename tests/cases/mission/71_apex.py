# expect: MEM901

from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B")
args = TrainingArguments("out", bf16=True, optim="adamw_apex_fused")
Trainer(model=model, args=args, train_dataset=dataset).train()
