"""A hand-written loop with the optimizer of transformers, as it was written in 2023."""

import json
import os

import torch
from transformers import AdamW, AutoModelForCausalLM, AutoTokenizer, get_scheduler

tokenizer = AutoTokenizer.from_pretrained(os.environ["MODEL"])
model = AutoModelForCausalLM.from_pretrained(os.environ["MODEL"], torch_dtype=torch.float32)
with open(os.environ["DATA"]) as lines:
    texts = [json.loads(line)["text"] for line in lines]

optimizer = AdamW(model.parameters(), lr=5e-5, correct_bias=True, no_deprecation_warning=True)
scheduler = get_scheduler("linear", optimizer, num_warmup_steps=0, num_training_steps=3)
model.train()
losses = []
for step in range(3):
    batch = tokenizer.encode_plus(texts[step], return_tensors="pt")
    loss = model(**batch, labels=batch["input_ids"]).loss
    loss.backward()
    optimizer.step()
    scheduler.step()
    optimizer.zero_grad()
    losses.append(loss.item())
