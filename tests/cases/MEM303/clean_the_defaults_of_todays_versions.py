# about: The defaults of today's versions.
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
from trl import SFTConfig, SFTTrainer

SFTTrainer("Qwen/Qwen3-0.6B", args=SFTConfig("out"), train_dataset=dataset).train()
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
model.activation_checkpointing_enable()
args = TrainingArguments("out", gradient_checkpointing=True)
Trainer(model, args, train_dataset=dataset).train()
