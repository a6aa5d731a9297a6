# about: What is only counted is cut nowhere.
from transformers import AutoModelForCausalLM, AutoTokenizer, Trainer, TrainingArguments

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")


def encode(rows):
    encoded = tokenizer(rows["dialogue"], truncation=True, max_length=1024)
    asked = [len(tokenizer.encode(text.split("Answer:")[0])) for text in rows["dialogue"]]
    labels = [list(ids) for ids in encoded["input_ids"]]
    for row, count in zip(labels, asked):
        for place in range(min(len(row), count)):
            row[place] = -100
    return {"input_ids": encoded["input_ids"], "labels": labels}


model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
Trainer(model, TrainingArguments("out"), train_dataset=rows.map(encode, batched=True)).train()
