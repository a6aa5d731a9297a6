# about: Rows padded to a fixed length, for a classifier, a decoder, a translator.
from datasets import load_dataset
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    DataCollatorForLanguageModeling,
    Trainer,
    TrainingArguments,
    default_data_collator,
)

tokenizer = AutoTokenizer.from_pretrained("bert-base-uncased")
model = AutoModelForCausalLM.from_pretrained("bert-base-uncased")
rows = load_dataset("imdb", split="train")


def tokenize(batch):
    done = tokenizer(batch["text"], padding="max_length", truncation=True, max_length=512)  # expect: MEM102
    done["labels"] = done["input_ids"].copy()
    return done


rows = rows.map(tokenize, batched=True)
args = TrainingArguments("out", per_device_train_batch_size=8)
Trainer(model, args, train_dataset=rows, data_collator=DataCollatorForLanguageModeling(tokenizer=tokenizer, mlm=True)).train()
