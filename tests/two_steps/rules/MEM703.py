import torch
from accelerate import Accelerator
from datasets import load_dataset
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM, AutoTokenizer, DataCollatorForLanguageModeling


def evaluate(model, loader):
    model.eval()
    total = 0.0
    for batch in loader:
        outputs = model(**batch)
        total += outputs.loss.item()
    return total / len(loader)


def main():
    accelerator = Accelerator()
    tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen2.5-0.5B")
    model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-0.5B")
    data = load_dataset("roneneldan/TinyStories").map(
        lambda rows: tokenizer(rows["text"], truncation=True, max_length=64),
        batched=True,
        remove_columns=["text"],
    )
    collator = DataCollatorForLanguageModeling(tokenizer, mlm=False)
    train_loader = DataLoader(data["train"].select(range(16)), batch_size=4, collate_fn=collator)
    eval_loader = DataLoader(data["validation"].select(range(16)), batch_size=4, collate_fn=collator)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    model, optimizer, train_loader, eval_loader = accelerator.prepare(
        model, optimizer, train_loader, eval_loader
    )
    for epoch in range(2):
        model.train()
        for batch in train_loader:
            loss = model(**batch).loss
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
        print(f"epoch {epoch}: validation loss {evaluate(model, eval_loader):.7f}")


main()
