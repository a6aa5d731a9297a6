import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B").cuda()
optimizer = torch.optim.AdamW(model.parameters())
for step, batch in enumerate(loader):
    outputs = model(**batch)
    outputs.loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    if step % 200 == 0:
        report(tokenizer.batch_decode(outputs.logits[:, :8].argmax(dim=-1)))
