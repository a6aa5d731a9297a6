# about: Nothing is evaluated.
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
args = TrainingArguments("out", per_device_train_batch_size=1)
Trainer(model, args, train_dataset=train, eval_dataset=test).train()
