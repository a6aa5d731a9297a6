# about: Nothing is padded at one row; evaluation wants rows; a masked language model.
from transformers import (
    AutoModelForCausalLM, DataCollatorForLanguageModeling, Trainer, TrainingArguments
)

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
collator = DataCollatorForLanguageModeling(tokenizer, mlm=False)
args = TrainingArguments("out", per_device_train_batch_size=1)
trainer = Trainer(model, args, data_collator=collator)
args = TrainingArguments("out")
trainer = Trainer(model, args, data_collator=collator, compute_metrics=compute_metrics)
trainer = Trainer(model, args, data_collator=DataCollatorForLanguageModeling(tokenizer))
