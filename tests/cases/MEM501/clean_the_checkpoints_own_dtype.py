# about: In transformers 5 no dtype means the checkpoint's, which a script does not show.
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B")
Trainer(model=model, args=TrainingArguments("out", bf16=True), train_dataset=dataset).train()
