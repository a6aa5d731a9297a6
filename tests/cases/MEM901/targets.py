from transformers import AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("t5-small")

def tokenized(rows):
    inputs = tokenizer(rows["text"], truncation=True)
    with tokenizer.as_target_tokenizer():  # expect: MEM901
        labels = tokenizer(
            rows["summary"],
            max_length=64,
            truncation=True,
        )
    inputs["labels"] = labels["input_ids"]
    return inputs
