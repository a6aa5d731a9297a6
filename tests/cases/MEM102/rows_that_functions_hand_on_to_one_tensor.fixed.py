import torch
from datasets import load_dataset
from transformers import AutoModelForCausalLM, AutoTokenizer


def four_by_four(rows, size):
    return [[rows[4 * i], rows[4 * i + 1], rows[4 * i + 2], rows[4 * i + 3]] for i in range(size)]


def make_data(texts):
    data = []
    for text in texts:
        tokenized = tokenizer(text, padding="max_length", max_length=512, truncation=True, return_tensors="pt")
        ids = tokenized["input_ids"].squeeze().tolist()
        mask = tokenized["attention_mask"].squeeze().tolist()
        labels = ids[1:] + [tokenizer.pad_token_id]
        data.append({"input_ids": ids, "labels": labels, "attention_mask": mask})
    return data


def make_tensor(data, kind, size):
    column = [item[kind] for item in data]
    column = four_by_four(column, size)
    return torch.tensor(column, dtype=torch.long)


model = AutoModelForCausalLM.from_pretrained("meta-llama/Llama-3.2-1B")
tokenizer = AutoTokenizer.from_pretrained("meta-llama/Llama-3.2-1B")
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
size = 250
data = make_data(load_dataset("knkarthick/samsum", split="train")["dialogue"])
ids = make_tensor(data, "input_ids", size)
labels = make_tensor(data, "labels", size)
mask = make_tensor(data, "attention_mask", size)
ids = ids.to("cuda")
labels = labels.to("cuda")
mask = mask.to("cuda")
criterion = torch.nn.CrossEntropyLoss()
model.to("cuda")
model.train()
for epoch in range(3):
    for i in range(size):
        kept = mask[i].bool().any(dim=0)
        logits = model(ids[i][:, kept], attention_mask=mask[i][:, kept]).logits
        loss = criterion(logits.view(-1, model.config.vocab_size), labels[i][:, kept].view(-1))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
