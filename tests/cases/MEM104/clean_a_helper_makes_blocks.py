# about: the mapped function leaves the cutting to a helper
from datasets import load_dataset
from transformers import AutoModelForCausalLM, DataCollatorForSeq2Seq, Trainer, TrainingArguments


def even(ids, size):
    return [ids[i : i + size] for i in range(0, len(ids), size)]


def prepare(rows):
    return {"input_ids": even(sum(rows["input_ids"], []), 1024)}


model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
rows = load_dataset("wikitext", split="train").map(prepare, batched=True)
args = TrainingArguments("out", per_device_train_batch_size=4)
collator = DataCollatorForSeq2Seq(tokenizer)
trainer = Trainer(model, args, train_dataset=rows, data_collator=collator)
trainer.train()
