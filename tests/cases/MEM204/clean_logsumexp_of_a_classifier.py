import torch
from transformers import AutoModelForSequenceClassification

model = AutoModelForSequenceClassification.from_pretrained("Qwen/Qwen3-0.6B").to("cuda")
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-6)
for batch, labels in loader:
    scores = model(**batch).logits
    loss = torch.logsumexp(scores, dim=-1) - scores.gather(-1, labels[:, None]).squeeze(-1)
    loss.mean().backward()
    optimizer.step()
    optimizer.zero_grad()
