# expect: MEM801, MEM802

from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B")
args = TrainingArguments("out", bf16=True, dataloader_pin_memory=False, dataloader_num_workers=0)
Trainer(model=model, args=args, train_dataset=dataset).train()
