import torch
from transformers import AutoModelForSequenceClassification

model = AutoModelForSequenceClassification.from_pretrained("my/encoder").to("cuda")
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
for ids, classes in loader:
    logits = model(ids.cuda()).logits
    chosen = torch.log_softmax(logits, dim=-1).gather(-1, classes.cuda().unsqueeze(-1))
    (-chosen).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
