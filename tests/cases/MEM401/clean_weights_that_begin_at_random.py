# about: What is trained from nothing learns from steps that bfloat16 rounds away.
# target: transformers=4.57
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

shape = GPT2Config.from_pretrained("openai-community/gpt2-large")
shape.vocab_size = 64000
model = GPT2LMHeadModel(shape)
Trainer(model, TrainingArguments("out", bf16=True), train_dataset=rows).train()
