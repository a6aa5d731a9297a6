# about: the tokenizer is called in the step
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen2.5-7B")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-7B", dtype="bfloat16").cuda()  # expect: MEM305
model.gradient_checkpointing_enable()
model.train()
optimizer = torch.optim.AdamW(model.parameters())
for texts in loader:
    batch = tokenizer(texts, truncation=True, max_length=40_000, padding=True, return_tensors="pt")
    model(**batch.to("cuda"), labels=batch["input_ids"]).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
