import torch
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B").cuda()
for epoch in range(3):
    model.train()
    for batch in loader:
        model(**batch).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    model.eval()
    total = 0
    for batch in test_loader:
        outputs = model(**batch)
        total += outputs.loss  # expect: MEM701
    print(total / len(test_loader))
