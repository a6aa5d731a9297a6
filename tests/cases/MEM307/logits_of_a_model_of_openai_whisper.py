import torch
import whisper
from torch.nn import functional as F

model = whisper.load_model("small", device="cuda")
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
model.train()
for sounds, before, after in loader:
    logits = model(sounds.cuda(), before.cuda())  # expect: MEM307
    loss = F.cross_entropy(logits.transpose(1, 2), after.cuda())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
