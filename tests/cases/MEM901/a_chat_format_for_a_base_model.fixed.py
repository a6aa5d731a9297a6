import trl
from memlint_runtime import setup_chat_format

model, tokenizer = setup_chat_format(model, tokenizer)
trainer = trl.SFTTrainer(model, train_dataset=dataset, processing_class=tokenizer)
