# about: All weights of eight billion, in float32.
import torch
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM, AutoTokenizer

name = "meta-llama/Llama-3.1-8B"
tokenizer = AutoTokenizer.from_pretrained(name)
tokenizer.pad_token = tokenizer.eos_token
model = AutoModelForCausalLM.from_pretrained(  # planted: MEM301, MEM402
    name, torch_dtype=torch.float32  # planted: MEM401
)
model = model.to("cuda")


def collate(rows):
    enc = tokenizer(
        [row["text"] for row in rows],
        return_tensors="pt",
        truncation=True,
        max_length=1024,
        padding="max_length",  # planted: MEM102
    )
    enc["labels"] = enc["input_ids"].clone()
    return enc


loader = DataLoader(rows, batch_size=4, shuffle=True, collate_fn=collate)
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5)  # planted: MEM501
model.train()
for step, batch in enumerate(loader):
    batch = {key: value.to("cuda") for key, value in batch.items()}
    outputs = model(**batch)  # planted: MEM201, MEM302, MEM307
    outputs.loss.backward()
    optimizer.step()
    optimizer.zero_grad()
