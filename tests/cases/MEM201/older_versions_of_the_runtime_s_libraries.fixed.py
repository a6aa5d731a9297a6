from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
from trl import SFTConfig, SFTTrainer

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
Trainer(model=model, args=TrainingArguments("out", use_liger_kernel=True), train_dataset=dataset).train()
SFTTrainer(model=model, args=SFTConfig("out", use_liger_kernel=True), train_dataset=dataset).train()
