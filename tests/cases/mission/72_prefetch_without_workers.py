# expect: MEM903

from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B")
args = TrainingArguments("out", bf16=True, dataloader_prefetch_factor=4)
Trainer(model=model, args=args, train_dataset=dataset).train()
