from torch.utils.data import DataLoader
from transformers import AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")


def tokenize(row):
    return tokenizer(row["text"], padding="max_length", truncation=True, max_length=512)  # expect: MEM102


loader = DataLoader(dataset.map(tokenize), batch_size=8)
for batch in loader:
    model(**batch).loss.backward()
