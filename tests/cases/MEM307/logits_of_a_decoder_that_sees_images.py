import torch
from transformers import AutoModelForImageTextToText, AutoProcessor

model = AutoModelForImageTextToText.from_pretrained("google/paligemma-3b-pt-224").to("cuda")
processor = AutoProcessor.from_pretrained("google/paligemma-3b-pt-224")
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
for images, texts in loader:
    batch = processor(images=images, text=texts, suffix=texts, return_tensors="pt").to("cuda")
    out = model(**batch)  # expect: MEM307
    out.loss.backward()
    optimizer.step()
    optimizer.zero_grad()
