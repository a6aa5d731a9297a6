from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
args = TrainingArguments(
    "out",
    fsdp="full_shard",
    fsdp_config={"activation_checkpointing": False},
    activation_checkpointing=True,
)
Trainer(model, args, train_dataset=rows).train()
