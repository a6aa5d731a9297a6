from torch.optim import AdamW

first = AdamW(model.parameters(), lr=1e-4, eps=1e-6, weight_decay=0.0)
second = AdamW(model.parameters(), 1e-4, (0.9, 0.99), weight_decay=0.1, eps=1e-6)
