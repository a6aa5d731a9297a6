import torch
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM, AutoTokenizer

words = AutoTokenizer.from_pretrained("EleutherAI/pythia-1b")
model = AutoModelForCausalLM.from_pretrained("EleutherAI/pythia-1b").cuda()
optimizer = torch.optim.AdamW(model.parameters())


def join(rows):
    texts = [row["question"] + row["answer"] for row in rows]
    batch = words(texts, padding="longest", return_tensors="pt")  # expect: MEM101
    batch["labels"] = batch["input_ids"].masked_fill(batch["attention_mask"] == 0, -100)
    return batch


for batch in DataLoader(rows, batch_size=8, collate_fn=join):
    model(**batch).loss.backward()
    optimizer.step()
    optimizer.zero_grad()

for at in range(0, len(texts), 8):
    part = texts[at : at + 8]
    batch = words(part, padding=True, return_tensors="pt")  # expect: MEM101
    batch = {name: value.cuda() for name, value in batch.items()}
    model(**batch, labels=batch["input_ids"]).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
