from datasets import load_dataset
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM, AutoTokenizer, DataCollatorForLanguageModeling

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B").cuda()


def encode(row):
    ids = tokenizer(row["text"], truncation=True, max_length=512, padding="max_length")
    answers = ids["input_ids"].copy()
    answers = [word if word != tokenizer.pad_token_id else -100 for word in answers]
    ids["labels"] = answers
    return ids


rows = load_dataset("imdb", split="train")
rows = rows.map(encode, remove_columns=rows.column_names)
rows.set_format("torch", columns=["input_ids", "attention_mask", "labels"])
collator = DataCollatorForLanguageModeling(tokenizer=tokenizer, mlm=False)
for batch in DataLoader(rows, batch_size=4, collate_fn=collator):
    kept = batch["attention_mask"].bool().any(dim=0)
    cut = {name: batch[name][:, kept] for name in ("input_ids", "attention_mask", "labels") if name in batch}
    batch.update(cut)
    model(**batch.to("cuda")).loss.backward()
