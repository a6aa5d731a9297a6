# about: What is tokenized as a target, where more than that is done, and where a text spans lines.
from transformers import AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("t5-small")


def one(rows):
    with tokenizer.as_target_tokenizer():  # expect: MEM901
        labels = tokenizer(rows["summary"], max_length=64)
    return labels


def kept(rows):
    with tokenizer.as_target_tokenizer() as kept:  # expect: MEM901
        labels = tokenizer(rows["summary"])
    return labels, kept


def lines(rows):
    with tokenizer.as_target_tokenizer():  # expect: MEM901
        labels = tokenizer("""two
lines""")
    return labels


def two(rows):
    with tokenizer.as_target_tokenizer():  # expect: MEM901
        labels = tokenizer(rows["a"], rows["b"])
    return labels


def pair(rows):
    with tokenizer.as_target_tokenizer():  # expect: MEM901
        labels = tokenizer(rows["a"], text_pair=rows["b"])
    return labels


def other(rows):
    with tokenizer.as_target_tokenizer():  # expect: MEM901
        labels = encode(tokenizer, rows)
    return labels


def nothing(rows):
    with tokenizer.as_target_tokenizer(), rows:  # expect: MEM901
        labels = tokenizer(rows["a"])
    return labels


def noted(rows):
    with tokenizer.as_target_tokenizer():  # expect: MEM901
        # the targets
        labels = tokenizer(rows["a"])
    return labels


encode = tokenizer.batch_encode_plus  # expect: MEM901
