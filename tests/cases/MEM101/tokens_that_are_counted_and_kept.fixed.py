from transformers import AutoModelForCausalLM, AutoTokenizer, Trainer, TrainingArguments

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")


def encode(row):
    ids = tokenizer(row["question"], truncation=True, max_length=1024)["input_ids"]
    return {"input_ids": ids, "labels": ids, "number": len(ids)}


model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
Trainer(model, TrainingArguments("out"), train_dataset=rows.map(encode)).train()
