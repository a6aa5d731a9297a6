import torch
from torch.utils.data import DataLoader, TensorDataset
from transformers import AutoModelForCausalLM


def work(net, place):
    rows = []
    for line in open(place):
        ids = list(line.encode("utf-8"))[:64]
        ids.extend([0] * (64 - len(ids)))
        rows.append(ids)
    kept = torch.tensor(rows, dtype=torch.long)
    steps = torch.optim.AdamW(net.parameters())
    for ids, labels in DataLoader(TensorDataset(kept, kept), batch_size=8):
        net(input_ids=ids, labels=labels).loss.backward()
        steps.step()
        steps.zero_grad()


work(AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B"), "learn.txt")
