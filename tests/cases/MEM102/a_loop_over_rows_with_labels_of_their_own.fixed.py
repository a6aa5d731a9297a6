from datasets import load_dataset
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM, AutoTokenizer, default_data_collator

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B", dtype="bfloat16").cuda()


def main():
    texts = load_dataset("imdb", split="train")

    def encode(row):
        row = tokenizer(row["text"], truncation=True, padding="max_length", max_length=1024)
        row["labels"] = row["input_ids"].copy()
        return row

    rows = texts.map(encode, remove_columns=texts.column_names)
    for batch in DataLoader(rows, batch_size=4, collate_fn=default_data_collator):
        kept = batch["attention_mask"].bool().any(dim=0)
        cut = {name: batch[name][:, kept] for name in ("input_ids", "attention_mask", "labels") if name in batch}
        batch.update(cut)
        model(**batch).loss.backward()


main()
