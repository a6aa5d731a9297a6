from datasets import load_dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, DataCollatorForLanguageModeling, Trainer, TrainingArguments

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen2.5-1.5B")


def blocks(rows):
    text = tokenizer.eos_token.join(rows["text"])
    given = tokenizer(text, truncation=False, return_tensors="pt", pad_to_multiple_of=4096, padding=True)
    return {"input_ids": given["input_ids"].view(-1, 4096)}


rows = load_dataset("org/rows", split="train").map(blocks, batched=True, remove_columns=["text"])
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-1.5B", dtype="bfloat16")
args = TrainingArguments("out", per_device_train_batch_size=1, bf16=True)
collator = DataCollatorForLanguageModeling(tokenizer, mlm=False)
Trainer(model, args, train_dataset=rows, data_collator=collator).train()
