import torch
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM, AutoTokenizer

net = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-1.7B", device_map="cuda")
tokens = AutoTokenizer.from_pretrained("Qwen/Qwen3-1.7B")


def latest_protested(rows):
    return tokens(
        rows,
        padding="longest",
        max_length=4096,
        truncation=True,
        return_tensors="pt",
    )


stepper = torch.optim.AdamW(net.parameters())
loader = DataLoader(texts, batch_size=4, collate_fn=latest_protested)
for rows in loader:
    net(**rows, labels=rows["input_ids"]).loss.backward()
    stepper.step()
    stepper.zero_grad()
