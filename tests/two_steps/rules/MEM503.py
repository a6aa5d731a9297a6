# data: document,summary
import torch
from datasets import load_dataset
from torch.optim import AdamW
from torch.utils.data import DataLoader
from tqdm.auto import tqdm
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, get_scheduler

checkpoint = "google/flan-t5-small"
tokenizer = AutoTokenizer.from_pretrained(checkpoint)
model = AutoModelForSeq2SeqLM.from_pretrained(checkpoint)


def collate(rows):
    inputs = tokenizer(
        [row["document"] for row in rows],
        text_target=[row["summary"] for row in rows],
        padding=True,
        truncation=True,
        max_length=64,
        return_tensors="pt",
    )
    inputs["labels"][inputs["labels"] == tokenizer.pad_token_id] = -100
    return inputs


loader = DataLoader(load_dataset("xsum", split="train"), batch_size=4, collate_fn=collate)
optimizer = AdamW(model.parameters(), lr=1e-3)
scheduler = get_scheduler("linear", optimizer, num_warmup_steps=0, num_training_steps=8)
device = torch.device("cuda")
model.to(device)
model.train()
progress = tqdm(range(4), disable=True)
for batch in loader:
    optimizer.zero_grad(set_to_none=False)
    batch = {key: value.to(device) for key, value in batch.items()}
    loss = model(**batch, use_cache=False).loss
    loss.backward()
    optimizer.step()
    scheduler.step()
    progress.update(1)
    print(loss.item())
    if progress.n == 4:
        break
