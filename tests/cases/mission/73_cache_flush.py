# expect: MEM705

from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B")
args = TrainingArguments("out", bf16=True, torch_empty_cache_steps=1)
Trainer(model=model, args=args, train_dataset=dataset).train()
