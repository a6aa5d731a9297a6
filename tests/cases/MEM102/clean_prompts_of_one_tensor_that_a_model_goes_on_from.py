# about: A policy samples from the padded prompts, and is trained on other rows.
import torch
from datasets import load_dataset
from transformers import AutoModelForCausalLM, AutoTokenizer


def answers_of(prompts):
    return model.generate(prompts, max_new_tokens=64)


tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B").cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
rows = []
for row in load_dataset("imdb", split="train"):
    rows.append(tokenizer(row["text"], padding="max_length", max_length=512, truncation=True)["input_ids"])
prompts = torch.tensor(rows, device="cuda")
model.train()
for first in range(0, len(prompts), 4):
    print(answers_of(prompts[first : first + 4]))
    batch = next(answered).to("cuda")
    model(input_ids=batch, labels=batch).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
