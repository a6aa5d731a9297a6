# target: trl=0.29,transformers=4.57
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
from trl import SFTConfig, SFTTrainer

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
Trainer(model=model, args=TrainingArguments("out"), train_dataset=dataset).train()  # expect: MEM201
SFTTrainer(model=model, args=SFTConfig("out"), train_dataset=dataset).train()  # expect: MEM201
