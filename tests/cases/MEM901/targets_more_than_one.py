from transformers import AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("t5-small")
with tokenizer.as_target_tokenizer():  # expect: MEM901
    print(tokenizer(["one", "two"]))
    labels = tokenizer(targets, **options)
