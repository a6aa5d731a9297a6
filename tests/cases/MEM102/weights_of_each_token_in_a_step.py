# about: No fix: a weight of each token meets the losses as it is.
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
    ids, mask = batch["input_ids"].cuda(), batch["attention_mask"].cuda()
    weights = batch["attention_mask"].float().cuda()
    losses = cross_entropy(model(ids, mask).logits.transpose(1, 2), ids, reduction="none")
    (losses * weights).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
