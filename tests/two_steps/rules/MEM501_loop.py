# fix: unsafe
import torch
from datasets import load_dataset
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM, AutoTokenizer, DataCollatorForLanguageModeling


def train(name="Qwen/Qwen2.5-7B"):
    tokenizer = AutoTokenizer.from_pretrained(name)
    model = AutoModelForCausalLM.from_pretrained(name, dtype=torch.float32).cuda()
    dataset = load_dataset("roneneldan/TinyStories", split="train").map(
        lambda rows: tokenizer(rows["text"], truncation=True, max_length=64),
        batched=True,
        remove_columns=["text"],
    )
    loader = DataLoader(
        dataset, batch_size=4, collate_fn=DataCollatorForLanguageModeling(tokenizer, mlm=False)
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01)
    model.train()
    for step, batch in enumerate(loader):
        loss = model(**batch.to("cuda")).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print(step, loss.item())
        if step == 3:
            break


train()
