import torch
from transformers import AutoProcessor, Qwen2VLForConditionalGeneration

model = Qwen2VLForConditionalGeneration.from_pretrained("Qwen/Qwen2-VL-2B-Instruct").to("cuda")
processor = AutoProcessor.from_pretrained("Qwen/Qwen2-VL-2B-Instruct")
optimizer = torch.optim.AdamW(model.parameters())
for images, texts in loader:
    batch = processor(images=images, text=texts, return_tensors="pt").to("cuda")
    outputs = model(**batch, labels=batch["input_ids"])  # expect: MEM302
    outputs.loss.backward()
    optimizer.step()
    optimizer.zero_grad()
