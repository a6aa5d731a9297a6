"""Training and evaluation written by hand."""

import torch
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM, AutoTokenizer


def evaluate(model, loader):
    model.eval()
    total = 0.0
    for batch in loader:
        total += model(**batch).loss.item()
    return total / len(loader)


def train(model, train_loader, eval_loader, epochs=3):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
    for epoch in range(epochs):
        model.train()
        for batch in train_loader:
            outputs = model(**batch)
            outputs.loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        print(epoch, evaluate(model, eval_loader))


def main():
    model = AutoModelForCausalLM.from_pretrained("EleutherAI/pythia-1.4b").cuda()
    tokenizer = AutoTokenizer.from_pretrained("EleutherAI/pythia-1.4b")
    with open("train.txt") as file:
        rows = [tokenizer(line, truncation=True, max_length=512) for line in file]
    cut = len(rows) * 9 // 10
    train(model, DataLoader(rows[:cut], batch_size=4), DataLoader(rows[cut:], batch_size=4))


if __name__ == "__main__":
    main()
