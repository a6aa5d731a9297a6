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
    done = tokenizer(batch["text"], truncation=True, max_length=512)
    return done


rows = rows.map(tokenize, batched=True)
args = TrainingArguments("out", per_device_train_batch_size=8)
Trainer(model, args, train_dataset=rows, data_collator=DataCollatorForLanguageModeling(tokenizer=tokenizer, mlm=True)).train()
