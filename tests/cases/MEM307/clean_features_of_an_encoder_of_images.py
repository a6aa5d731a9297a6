import torch
from transformers import AutoImageProcessor, CLIPVisionModel

encoder = CLIPVisionModel.from_pretrained("openai/clip-vit-base-patch32").to("cuda")
head = torch.nn.Linear(768, 10).to("cuda")
optimizer = torch.optim.SGD(head.parameters(), lr=1e-3)
for images, labels in loader:
    seen = encoder(pixel_values=images.cuda())
    loss = torch.nn.functional.cross_entropy(head(seen.pooler_output), labels.cuda())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
