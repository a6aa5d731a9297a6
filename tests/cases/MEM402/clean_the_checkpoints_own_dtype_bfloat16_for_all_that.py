# about: The checkpoint's own dtype: bfloat16 for all that the script says.
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B")
Trainer(model=model, args=TrainingArguments("out"), train_dataset=dataset).train()
