# about: No fix: the rows have no mask, which is spoken of elsewhere.
from datasets import load_dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, Trainer, TrainingArguments

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")


def prepare(rows):
    words = tokenizer(
        rows["text"],
        padding="max_length",  # expect: MEM102
        max_length=512,
        truncation=True,
        return_tensors="pt",
    )
    return {"input_ids": words["input_ids"], "labels": words["input_ids"].clone()}


rows = load_dataset("imdb", split="train").map(prepare, batched=True)
Trainer(model, TrainingArguments("out"), train_dataset=rows).train()
asked = tokenizer("What is it about?", return_tensors="pt")
model.generate(asked["input_ids"], attention_mask=asked["attention_mask"])
