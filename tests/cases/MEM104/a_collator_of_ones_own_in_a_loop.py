import torch
from datasets import load_dataset
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B").cuda()


def prepare(row):
    return {"input_ids": tokenizer(row["text"], truncation=True, max_length=2048)["input_ids"]}


def together(items):
    ids = [torch.tensor(item["input_ids"]) for item in items]
    inputs = pad_sequence(ids, batch_first=True, padding_value=0)
    labels = pad_sequence(ids, batch_first=True, padding_value=-100)
    return {"input_ids": inputs, "labels": labels}


rows = load_dataset("imdb", split="train").map(prepare, remove_columns=["text", "label"])
loader = DataLoader(rows, batch_size=8, shuffle=True, collate_fn=together)  # expect: MEM104
optimizer = torch.optim.AdamW(model.parameters())
model.train()
for batch in loader:
    model(**{name: one.cuda() for name, one in batch.items()}).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
