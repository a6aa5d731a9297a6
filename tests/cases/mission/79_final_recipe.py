# expect: MEM902 safe

from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B")
args = TrainingArguments(
    "out",
    per_device_train_batch_size=4,
    gradient_accumulation_steps=16,
    gradient_checkpointing=True,
    bf16=True,
    tf32=True,
    optim="adamw_8bit",
    dataloader_pin_memory=True,
    dataloader_num_workers=4,
    torch_compile=True,
)
Trainer(model=model, args=args, train_dataset=dataset).train()
