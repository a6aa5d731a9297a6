from transformers import AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("t5-small")


def one(rows):
    labels = tokenizer(text_target=rows["summary"], max_length=64)
    return labels


def kept(rows):
    with tokenizer.as_target_tokenizer() as kept:
        labels = tokenizer(rows["summary"])
    return labels, kept


def lines(rows):
    with tokenizer.as_target_tokenizer():
        labels = tokenizer("""two
lines""")
    return labels


def two(rows):
    with tokenizer.as_target_tokenizer():
        labels = tokenizer(rows["a"], rows["b"])
    return labels


def pair(rows):
    with tokenizer.as_target_tokenizer():
        labels = tokenizer(rows["a"], text_pair=rows["b"])
    return labels


def other(rows):
    with tokenizer.as_target_tokenizer():
        labels = encode(tokenizer, rows)
    return labels


def nothing(rows):
    with tokenizer.as_target_tokenizer(), rows:
        labels = tokenizer(rows["a"])
    return labels


def noted(rows):
    with tokenizer.as_target_tokenizer():
        # the targets
        labels = tokenizer(rows["a"])
    return labels


encode = tokenizer.batch_encode_plus
