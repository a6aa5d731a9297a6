# about: FSDP recomputes the layers that it shards.
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
Trainer(model, TrainingArguments("out", fsdp="full_shard", fsdp_config={"activation_checkpointing": True}), train_dataset=rows).train()
