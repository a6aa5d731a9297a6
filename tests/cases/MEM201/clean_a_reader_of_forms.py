# about: its loss is torch's, over logits in the model's own dtype.
import torch
from transformers import UdopForConditionalGeneration

model = UdopForConditionalGeneration.from_pretrained("microsoft/udop-large").to("cuda")
model.train()
optimizer = torch.optim.AdamW(model.parameters())
for batch in loader:
    model(**batch).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
