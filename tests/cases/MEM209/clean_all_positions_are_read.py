import torch
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
for ids, lengths in loader:
    logits = model(input_ids=ids).logits
    print(logits[:, -1], logits.mean())
    shifted = model(input_ids=ids).logits[:, :-1]
    print(torch.log_softmax(shifted, -1))
    rows = model(input_ids=ids).logits
    print(rows[torch.arange(4), lengths])
    chunks = model(input_ids=ids).logits
    for start in range(0, 4096, 256):
        print(chunks[:, start : start + 256].logsumexp(-1))
