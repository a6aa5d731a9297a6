from transformers import AutoModelForCausalLM, AutoTokenizer, Trainer, TrainingArguments

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")


def encode(row):
    ids = tokenizer(row["question"])["input_ids"]  # expect: MEM101
    return {"input_ids": ids, "labels": ids, "number": len(ids)}


model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
Trainer(model, TrainingArguments("out"), train_dataset=rows.map(encode)).train()
