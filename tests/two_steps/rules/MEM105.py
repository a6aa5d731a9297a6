import torch
from datasets import load_dataset
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM, AutoTokenizer, DataCollatorWithFlattening

device = "cuda" if torch.cuda.is_available() else "cpu"
tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen2.5-0.5B")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-0.5B").to(device)

dataset = load_dataset("roneneldan/TinyStories", split="train")
dataset = dataset.map(
    lambda rows: {"input_ids": tokenizer(rows["text"], truncation=True, max_length=128)["input_ids"]},
    batched=True,
    remove_columns=["text"],
)
loader = DataLoader(dataset, batch_size=4, collate_fn=DataCollatorWithFlattening())
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

model.train()
for step, batch in enumerate(loader):
    batch = {name: value.to(device) for name, value in batch.items()}
    outputs = model(**batch)
    loss = outputs.loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(step, loss.item())
    if step == 3:
        break
