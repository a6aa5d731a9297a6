# about: No fix: labels meet the logits as they are.
import torch
from datasets import load_dataset
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM, AutoTokenizer

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B").cuda()
tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")


def prepare(rows):
    words = tokenizer(
        rows["text"],
        padding="max_length",  # expect: MEM102
        max_length=512,
        truncation=True,
        return_tensors="pt",
    )
    words["labels"] = words["input_ids"].clone()
    return words


rows = load_dataset("imdb", split="train").map(prepare, batched=True).with_format("torch")
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
model.train()
for batch in DataLoader(rows, batch_size=8):
    labels = batch.pop("labels")
    logits = model(**batch).logits
    cross_entropy(logits.flatten(0, 1), labels.flatten()).backward()
    optimizer.step()
    optimizer.zero_grad()
