# about: a length that the trainer refuses is another fault
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
args = TrainingArguments("out", num_train_epochs=False, max_steps=True)
Trainer(model, args, train_dataset=rows).train()
