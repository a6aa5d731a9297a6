# data: text,label:int
"""A yes/no classifier made of a language model: it learns the next token after the question."""

import torch
import torch.nn.functional as F
from datasets import load_dataset
from transformers import AutoModelForCausalLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen2.5-0.5B", padding_side="left")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-0.5B")
yes = tokenizer(" yes")["input_ids"][0]
no = tokenizer(" no")["input_ids"][-1]
answers = torch.tensor([no, yes])

data = load_dataset("imdb", split="train")
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
model.train()
for step in range(4):
    rows = data[step * 4 : step * 4 + 4]
    batch = tokenizer(
        [text + "\nGood?" for text in rows["text"]], return_tensors="pt", padding=True
    )
    outputs = model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"])
    loss = F.cross_entropy(outputs.logits[:, -1], answers[torch.tensor(rows["label"])])
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(step, loss.item())

model.eval()
with torch.no_grad():
    rows = data[16:20]
    batch = tokenizer([text + "\nGood?" for text in rows["text"]], return_tensors="pt", padding=True)
    logits = model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).logits
    print((logits[:, -1, yes] - logits[:, -1, no]).tolist())
