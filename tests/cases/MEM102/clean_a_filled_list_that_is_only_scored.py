import torch
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM, AutoTokenizer

words = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
net = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B").cuda()


def prepare(texts):
    rows = []
    for text in texts:
        ids = words(text)["input_ids"][:768]
        ids += [words.pad_token_id] * (768 - len(ids))
        rows.append({"input_ids": ids, "labels": ids})
    return rows


asked = prepare(open("ask.txt"))
with torch.no_grad():
    for batch in DataLoader(asked, batch_size=8):
        print(net(**batch).loss)

learned = [{"input_ids": words(line)["input_ids"]} for line in open("learn.txt")]


def collate(rows):
    return {name: torch.tensor([row[name] for row in rows]) for name in rows[0]}


steps = torch.optim.AdamW(net.parameters())
for batch in DataLoader(learned, batch_size=8, shuffle=True, collate_fn=collate):
    net(**batch).loss.backward()
    steps.step()
    steps.zero_grad()
