# about: Whether its attention keeps documents apart shows when it is asked to: the fix is an unsafe one.
from transformers import AutoModelForCausalLM, DataCollatorForSeq2Seq, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("our/own-model")
trainer = Trainer(
    model,
    TrainingArguments("out", per_device_train_batch_size=8),
    data_collator=DataCollatorForSeq2Seq(tokenizer),  # expect: MEM104
    train_dataset=dataset,
)
trainer.train()
