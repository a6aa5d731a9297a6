import torch
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM, AutoTokenizer

words = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
net = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B").cuda()


def level(ids, most, pad=0):
    if most >= len(ids):
        return ids + [pad] * (most - len(ids))  # expect: MEM102
    return ids[:most]


def prepare(texts, max_length):
    rows = []
    ids = words(texts, add_special_tokens=False)["input_ids"]
    for turn in range(len(texts)):
        rows.append(
            {
                "input_ids": level(ids[turn], max_length),
                "labels": level([-100] + ids[turn][1:], max_length, -100),
            }
        )
    return rows


learned = prepare([line for line in open("learn.txt")], max_length=512)


def collate(rows):
    return {name: torch.tensor([row[name] for row in rows]) for name in rows[0]}


steps = torch.optim.AdamW(net.parameters())
for batch in DataLoader(learned, batch_size=8, shuffle=True, collate_fn=collate):
    net(**batch).loss.backward()
    steps.step()
    steps.zero_grad()
