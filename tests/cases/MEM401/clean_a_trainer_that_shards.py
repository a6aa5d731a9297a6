from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-7B", torch_dtype="float32")
args = TrainingArguments("out", bf16=True, fsdp="full_shard auto_wrap")
Trainer(model, args, train_dataset=rows).train()
