# about: a lambda counts as a function does; the collator pads
from datasets import load_dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, DataCollatorForSeq2Seq, Trainer

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
raw = load_dataset("imdb", split="train")

rows = raw.map(
    lambda row: tokenizer(row["text"], truncation=True, padding="max_length", max_length=512),  # expect: MEM102
    batched=True,
)
Trainer(model, args, train_dataset=rows, data_collator=DataCollatorForSeq2Seq(tokenizer)).train()
