# about: The outputs are those of an evaluation within the loop.
import torch
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
for step, batch in enumerate(loader):
    model(**batch).loss.backward()
    if step % 100 == 0:
        model.eval()
        with torch.no_grad():
            for batch in test_loader:
                outputs = model(**batch)
        model.train()
