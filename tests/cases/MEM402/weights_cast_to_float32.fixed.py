from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B").float()
args = TrainingArguments("out", per_device_train_batch_size=4, bf16=True)
Trainer(model, args, train_dataset=rows).train()
