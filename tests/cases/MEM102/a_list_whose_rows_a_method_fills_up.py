import torch
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM, AutoTokenizer

words = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
net = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B").cuda()


class Reader:
    def __init__(self, words, most):
        self.words, self.most = words, most

    def level(self, ids):
        ids = ids[: self.most]
        missing = self.most - len(ids)
        return ids + [self.words.pad_token_id] * missing  # expect: MEM102

    def read(self, texts):
        rows = []
        for text in texts:
            row = {}
            row["input_ids"] = self.level(self.words(text)["input_ids"])
            row["labels"] = row["input_ids"]
            rows.append(row)
        return rows


learned = Reader(words, 512).read(open("learn.txt"))


def collate(rows):
    return {name: torch.tensor([row[name] for row in rows]) for name in rows[0]}


steps = torch.optim.AdamW(net.parameters())
for batch in DataLoader(learned, batch_size=8, shuffle=True, collate_fn=collate):
    net(**batch).loss.backward()
    steps.step()
    steps.zero_grad()
