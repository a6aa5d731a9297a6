from transformers import AutoModelForCausalLM, AutoTokenizer, Trainer, TrainingArguments

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen2.5-7B")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-7B", dtype="bfloat16")
short = dataset.map(lambda row: tokenizer(row["text"], truncation=True, max_length=4096))
args = TrainingArguments("out", gradient_checkpointing=True)
Trainer(model, args, train_dataset=short).train()
questions = [tokenizer(one, truncation=True, max_length=65536) for one in held_out]
print(model.generate(questions[0]["input_ids"]))
