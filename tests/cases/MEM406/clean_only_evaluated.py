from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B")
Trainer(model=model, args=TrainingArguments("out"), eval_dataset=dataset).evaluate()
