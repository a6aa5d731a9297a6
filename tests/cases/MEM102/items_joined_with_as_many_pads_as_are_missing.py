import torch
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM, AutoTokenizer

words = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
net = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B").cuda()


class Pairs(torch.utils.data.Dataset):
    def __init__(self, rows, words, most):
        self.rows, self.words, self.most = rows, words, most
        self.pad = torch.tensor([words.pad_token_id], dtype=torch.int64)

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, place):
        ids = self.words(self.rows[place])["input_ids"]
        missing = self.most - len(ids) - 2
        row = torch.concat(
            [
                torch.tensor([self.words.bos_token_id]),
                torch.tensor(ids, dtype=torch.int64),
                torch.tensor([self.words.eos_token_id]),
                torch.tensor([self.pad] * missing, dtype=torch.int64),  # expect: MEM102
            ]
        )
        return {"input_ids": row, "labels": row}


learned = Pairs(open("learn.txt").readlines(), words, 350)

steps = torch.optim.AdamW(net.parameters())
for batch in DataLoader(learned, batch_size=8, shuffle=True):
    net(**batch).loss.backward()
    steps.step()
    steps.zero_grad()
