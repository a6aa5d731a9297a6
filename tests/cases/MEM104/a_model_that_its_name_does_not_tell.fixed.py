from transformers import AutoModelForCausalLM, DataCollatorForSeq2Seq, Trainer, TrainingArguments
from memlint_runtime import train_without_padding

model = AutoModelForCausalLM.from_pretrained("our/own-model")
trainer = Trainer(
    model,
    TrainingArguments("out", per_device_train_batch_size=8),
    data_collator=DataCollatorForSeq2Seq(tokenizer),
    train_dataset=dataset,
)
train_without_padding(trainer)
trainer.train()
