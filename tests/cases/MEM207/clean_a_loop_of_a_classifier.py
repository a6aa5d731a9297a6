import torch
from torch.utils.data import DataLoader
from transformers import AutoModelForSequenceClassification

model = AutoModelForSequenceClassification.from_pretrained("Qwen/Qwen3-8B", dtype=torch.bfloat16).cuda()
model.gradient_checkpointing_enable()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
train_loader = DataLoader(train, batch_size=4, shuffle=True, pin_memory=True, num_workers=2)
eval_loader = DataLoader(test, batch_size=32, pin_memory=True, num_workers=2)
for epoch in range(3):
    model.train()
    for batch in train_loader:
        loss = model(**batch, use_cache=False).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    model.eval()
    with torch.no_grad():
        print(sum(model(**batch).loss.item() for batch in eval_loader))
