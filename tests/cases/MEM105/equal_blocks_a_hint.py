from transformers import AutoModelForCausalLM, Trainer, TrainingArguments


def equal_rows(examples):  # expect: MEM105 hint
    joined = {key: sum(examples[key], []) for key in examples}
    return {key: [row[i : i + 1024] for i in range(0, len(row), 1024)] for key, row in joined.items()}


model = AutoModelForCausalLM.from_pretrained("gpt2")
Trainer(model, TrainingArguments("out"), train_dataset=data.map(equal_rows, batched=True)).train()
