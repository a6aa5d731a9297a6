from transformers import AutoModelForCausalLM, DataCollatorForSeq2Seq, Trainer, TrainingArguments
from memlint_runtime import train_without_padding

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
args = TrainingArguments("out", per_device_train_batch_size=4)
collator = DataCollatorForSeq2Seq(tokenizer)
trainer = Trainer(model, args, train_dataset=dataset, data_collator=collator)
train_without_padding(trainer)
trainer.train()
