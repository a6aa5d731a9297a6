# expect: MEM901 safe

from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B", use_flash_attention_2=True)
args = TrainingArguments("out", bf16=True)
Trainer(model=model, args=args, train_dataset=dataset).train()
