# data: text,label:int
import torch
from datasets import load_dataset
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen2.5-0.5B")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-0.5B").to("cuda")
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)


def collate(rows):
    batch = tokenizer([row["text"] for row in rows], padding=True, return_tensors="pt")
    batch["labels"] = batch["input_ids"].masked_fill(batch["attention_mask"] == 0, -100)
    return batch


data = load_dataset("imdb", split="train")
train_loader = DataLoader(data.select(range(16)), batch_size=4, collate_fn=collate)
test_loader = DataLoader(data.select(range(16, 32)), batch_size=4, collate_fn=collate)

for epoch in range(2):
    model.train()
    for batch in train_loader:
        batch = batch.to("cuda")
        loss = model(**batch).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    model.eval()
    eval_loss = 0.0
    correct = 0
    for batch in test_loader:
        batch = batch.to("cuda")
        outputs = model(**batch)
        eval_loss += outputs.loss.item()
        predicted = outputs.logits[:, :-1].argmax(-1)
        correct += (predicted == batch["input_ids"][:, 1:]).sum().item()
    print(epoch, eval_loss / len(test_loader), correct)
