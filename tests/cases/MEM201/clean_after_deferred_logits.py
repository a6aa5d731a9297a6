# about: The head makes no logits any more.
from memlint_runtime.losses import defer_logits
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
defer_logits(model)
Trainer(model, TrainingArguments("out"), train_dataset=dataset).train()
