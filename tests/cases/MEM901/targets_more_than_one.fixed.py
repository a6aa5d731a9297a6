from transformers import AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("t5-small")
print(tokenizer(text_target=["one", "two"]))
labels = tokenizer(text_target=targets, **options)
