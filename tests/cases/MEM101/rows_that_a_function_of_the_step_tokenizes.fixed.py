import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B").to("cuda")
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)


def score(text):
    rows = tokenizer(text, return_tensors="pt", truncation=True, max_length=1024).to("cuda")
    ids = rows["input_ids"]
    words = model(ids).logits[:, :-1].log_softmax(-1)
    return words.gather(-1, ids[:, 1:, None]).sum()


for pair in pairs:
    loss = score(pair["worse"]) - score(pair["better"])
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
