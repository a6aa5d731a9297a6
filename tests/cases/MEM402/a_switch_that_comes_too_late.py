from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B", dtype="float32")
args = TrainingArguments("out")
args.fp16 = True  # expect: MEM402
Trainer(model=model, args=args, train_dataset=rows).train()
