import torch
from transformers import AutoModelForSequenceClassification

judge = AutoModelForSequenceClassification.from_pretrained("bert-base-uncased", num_labels=2)
judge.to("cuda")
optimizer = torch.optim.AdamW(judge.parameters(), lr=1e-5)
for batch in loader:
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = judge(**batch).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
