from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
args = TrainingArguments("out", max_steps=20_000, num_train_epochs=1)  # expect: MEM804
Trainer(model, args, train_dataset=rows).train()
