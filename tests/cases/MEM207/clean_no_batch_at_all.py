# about: a batch of no rows, which the trainer refuses.
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
args = TrainingArguments("out", per_device_train_batch_size=0, eval_strategy="epoch")
Trainer(model, args, train_dataset=rows, eval_dataset=rows).train()
