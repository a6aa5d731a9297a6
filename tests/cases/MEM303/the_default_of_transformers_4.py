# target: transformers=4.48,trl=0.15
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
args = TrainingArguments("out", gradient_checkpointing=True)  # expect: MEM303
Trainer(model, args, train_dataset=dataset).train()
